// Compiled for AVX-512 with bf16 and AMX; entered only where BestSplitKernels found these. It uses
// no inline function of another header: the linker could take this copy of it for all.
#include <immintrin.h>

#include "gemm/split.h"

namespace blade {
namespace {

constexpr int kTile = SplitKernels::kTileSize;
constexpr int kStepOfA = SplitKernels::kParts * kTile, kStepOfB = 2 * kStepOfA;

constexpr int kLine = 64 / sizeof(uint16_t);  // numbers in a line of cache

constexpr BladeInt Min(BladeInt a, BladeInt b) { return a < b ? a : b; }

BladeInt Steps(BladeInt k) { return (k + SplitKernels::kDepth - 1) / SplitKernels::kDepth; }

// What follows doesn't round to a finite bf16.
constexpr int kMagnitude = 0x7fffffff, kTooLarge = 0x7f7f7fff;

__mmask16 TooLarge(__m512 x) {
  const __m512i bits = _mm512_and_si512(_mm512_castps_si512(x), _mm512_set1_epi32(kMagnitude));
  return _mm512_cmpgt_epi32_mask(bits, _mm512_set1_epi32(kTooLarge));
}

__m512 Widen(__m256i bf16) {
  return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(bf16), 16));
}

// Writes the parts of x (16 numbers) and y to out, out + kTile and out + 2 kTile.
void Split(__m512 x, __m512 y, uint16_t* out) {
  for (int part = 0; part < SplitKernels::kParts; ++part) {
    const __m512i rounded = (__m512i)_mm512_cvtne2ps_pbh(y, x);
    _mm512_store_si512(out + part * kTile, rounded);
    x = _mm512_sub_ps(x, Widen(_mm512_castsi512_si256(rounded)));
    y = _mm512_sub_ps(y, Widen(_mm512_extracti64x4_epi64(rounded, 1)));
  }
}

__mmask16 First(BladeInt n) {
  return n >= 16 ? 0xffff : n <= 0 ? 0 : static_cast<__mmask16>((1u << n) - 1);
}

bool SplitA(const float* a, BladeInt a_row, BladeInt m, BladeInt k, uint16_t* out) {
  constexpr int kDepth = SplitKernels::kDepth, kRows = SplitKernels::kRows;
  const BladeInt steps = Steps(k);
  __mmask16 bad = 0;
  for (BladeInt i = 0; i < m; ++i) {
    const float* row = a + i * a_row;
    uint16_t* to = out + i / kRows * steps * kStepOfA + i % kRows * kDepth;
    for (BladeInt p = 0; p < k; p += kDepth, to += kStepOfA) {
      const __m512 x = _mm512_maskz_loadu_ps(First(k - p), row + p);
      const __m512 y = _mm512_maskz_loadu_ps(First(k - p - 16), row + p + 16);
      bad |= TooLarge(x) | TooLarge(y);
      Split(x, y, to);
    }
  }
  return bad == 0;
}

bool SplitPanel(const float* panel, BladeInt k, uint16_t* out) {
  constexpr int kColumns = SplitKernels::kColumns, kDepth = SplitKernels::kDepth;
  const __m512i low = _mm512_set_epi32(23, 7, 22, 6, 21, 5, 20, 4, 19, 3, 18, 2, 17, 1, 16, 0);
  const __m512i high =
      _mm512_set_epi32(31, 15, 30, 14, 29, 13, 28, 12, 27, 11, 26, 10, 25, 9, 24, 8);
  const BladeInt padded = Steps(k) * kDepth;
  __mmask16 bad = 0;
  for (BladeInt p = 0; p < padded; p += 2) {
    uint16_t* to = out + p / kDepth * kStepOfB + p % kDepth / 2 * kColumns;
    for (int j = 0; j < kColumns; j += 16, to += kStepOfA) {
      const float* from = panel + p * kColumns + j;
      const __m512 x = p < k ? _mm512_loadu_ps(from) : _mm512_setzero_ps();
      const __m512 y = p + 1 < k ? _mm512_loadu_ps(from + kColumns) : _mm512_setzero_ps();
      bad |= TooLarge(x) | TooLarge(y);
      Split(_mm512_permutex2var_ps(x, low, y), _mm512_permutex2var_ps(x, high, y), to);
    }
  }
  return bad == 0;
}

// Tiles 0 to 3 hold sums: rows of tile 4 or 5 by columns of 6 or 7.
void Configure(BladeInt upper, BladeInt lower) {
  struct alignas(64) {
    uint8_t palette = 1, start_row = 0, reserved[14] = {};
    uint16_t bytes[16] = {};
    uint8_t rows[16] = {};
  } config;
  const BladeInt rows[8] = {upper, upper, lower, lower, upper, lower, 16, 16};
  for (int i = 0; i < 8; ++i) {
    if (rows[i] == 0) continue;
    config.bytes[i] = 64;
    config.rows[i] = static_cast<uint8_t>(rows[i]);
  }
  _tile_loadconfig(&config);
}

#define BLADE_LOAD_A(part)                    \
  _tile_loadd(4, upper + (part) * kTile, 64); \
  if (kTwo) _tile_loadd(5, lower + (part) * kTile, 64);
#define BLADE_LOAD_B(part)                \
  _tile_loadd(6, b + (part) * kTile, 64); \
  _tile_loadd(7, b + kStepOfA + (part) * kTile, 64);
#define BLADE_MULTIPLY               \
  _tile_dpbf16ps(0, 4, 6);           \
  _tile_dpbf16ps(1, 4, 7);           \
  if (kTwo) _tile_dpbf16ps(2, 5, 6); \
  if (kTwo) _tile_dpbf16ps(3, 5, 7);

// sums[32][32] = up to 16 rows of A, twice if kTwo, by a panel of B. Meanwhile `fetch`
// lines of cache are fetched each step, from `next` on.
template <bool kTwo>
void Sum(const uint16_t* upper, const uint16_t* lower, const uint16_t* b, const uint16_t* next,
         BladeInt fetch, BladeInt steps, float* sums) {
  _tile_zero(0);
  _tile_zero(1);
  if (kTwo) _tile_zero(2);
  if (kTwo) _tile_zero(3);
  for (BladeInt step = 0; step < steps; ++step) {
    BLADE_LOAD_A(0)
    BLADE_LOAD_B(2)
    BLADE_MULTIPLY BLADE_LOAD_B(1) BLADE_MULTIPLY BLADE_LOAD_A(1) BLADE_MULTIPLY BLADE_LOAD_B(0)
        BLADE_MULTIPLY BLADE_LOAD_A(0) BLADE_MULTIPLY BLADE_LOAD_A(2) BLADE_MULTIPLY upper +=
        kStepOfA;
    lower += kStepOfA;
    b += kStepOfB;
    for (BladeInt i = 0; i < fetch; ++i, next += kLine) _mm_prefetch(next, _MM_HINT_T1);
  }
  constexpr int kRowBytes = SplitKernels::kColumns * sizeof(float);
  _tile_stored(0, sums, kRowBytes);
  _tile_stored(1, sums + 16, kRowBytes);
  if (kTwo) _tile_stored(2, sums + 16 * SplitKernels::kColumns, kRowBytes);
  if (kTwo) _tile_stored(3, sums + 16 * SplitKernels::kColumns + 16, kRowBytes);
}

// c: from row `row` on of what the epilogue is for.
void Store(const float* sums, BladeInt m, float* c, BladeInt ldc, BladeInt n,
           const Epilogue<float>& epilogue, BladeInt row) {
  for (int j = 0; j < n; j += 16) {
    const __mmask16 mask = First(n - j);
    const __m512 bias = epilogue.bias != nullptr ? _mm512_maskz_loadu_ps(mask, epilogue.bias + j)
                                                 : _mm512_setzero_ps();
    for (BladeInt i = 0; i < m; ++i) {
      __m512 x = _mm512_load_ps(sums + i * SplitKernels::kColumns + j);
      if (epilogue.scale != 1) x = _mm512_mul_ps(x, _mm512_set1_ps(epilogue.scale));
      if (epilogue.accumulate) x = _mm512_add_ps(x, _mm512_maskz_loadu_ps(mask, c + i * ldc + j));
      if (epilogue.bias != nullptr) x = _mm512_add_ps(x, bias);
      if (epilogue.relu) {
        const __mmask16 negative = _mm512_cmp_ps_mask(x, _mm512_setzero_ps(), _CMP_LT_OQ);
        x = _mm512_mask_mov_ps(x, negative, _mm512_setzero_ps());
      }
      if (epilogue.residual != nullptr) {
        const float* residual = epilogue.residual + (row + i) * ldc + j;
        x = _mm512_add_ps(x, _mm512_maskz_loadu_ps(mask, residual));
      }
      _mm512_mask_storeu_ps(c + i * ldc + j, mask, x);
    }
  }
}

void Multiply(const uint16_t* a, BladeInt m, const uint16_t* b, const uint16_t* next_b, BladeInt k,
              float* c, BladeInt ldc, BladeInt n, const Epilogue<float>& epilogue) {
  constexpr BladeInt kRows = SplitKernels::kRows;
  alignas(64) float sums[2 * kRows * SplitKernels::kColumns];
  const BladeInt steps = Steps(k);
  const BladeInt a_tile = steps * kStepOfA;
  // Shared out among the rows, so that memory has the time of all of them.
  const BladeInt pairs = (m + 2 * kRows - 1) / (2 * kRows);
  const BladeInt fetch = next_b == nullptr ? 0 : (kStepOfB / kLine + pairs - 1) / pairs;
  BladeInt configured = 0;
  for (BladeInt i = 0; i < m; i += 2 * kRows) {
    const BladeInt rows = Min(2 * kRows, m - i);
    if (rows != configured) {
      Configure(Min(rows, kRows), rows > kRows ? rows - kRows : 0);
      configured = rows;
    }
    const uint16_t* upper = a + i / kRows * a_tile;
    if (rows > kRows) {
      Sum<true>(upper, upper + a_tile, b, next_b, fetch, steps, sums);
    } else {
      Sum<false>(upper, upper, b, next_b, fetch, steps, sums);
    }
    Store(sums, rows, c + i * ldc, ldc, n, epilogue, i);
    next_b += steps * fetch * kLine;
  }
  _tile_release();
}

}  // namespace

extern const SplitKernels kSplitAmx;
const SplitKernels kSplitAmx = {SplitA, SplitPanel, Multiply};

}  // namespace blade
