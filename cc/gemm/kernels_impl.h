// The kernels of kernels.h in terms of vector extensions. Included once by each kernels_<isa>.cc,
// which sets
//
//   BLADE_GEMM_VECTOR_BYTES  width of a vector register
//   BLADE_GEMM_ROWS          most rows of a tile: rows * 2 accumulators, 2 vectors of B and one of
//                            A fill the register file
//   BLADE_GEMM_BLOCK         Kernels::block for f32 and f64
//   BLADE_GEMM_ISA           the level's name
//   BLADE_GEMM_TABLES        the function that returns the two tables
//
// Everything is in an unnamed namespace and no standard header is included: an inline function
// compiled here for a newer ISA must never be the copy that the linker keeps for all.

#include "gemm/kernels.h"
#include "gemm/vectors.h"

namespace blade {
namespace {

// What the epilogue makes of one element.
template <typename T>
BLADE_INLINE T Finish(T x, T old, T bias, T residual, const Epilogue<T>& epilogue) {
  x *= epilogue.scale;
  if (epilogue.accumulate) x += old;
  if (epilogue.bias != nullptr) x += bias;
  if (epilogue.relu) x = x < T(0) ? T(0) : x;
  if (epilogue.residual != nullptr) x += residual;
  return x;
}

// Finishes and stores tiles that are not a whole panel wide, from a copy of their accumulators.
// Out of line: it would be most of every kernel's code.
template <typename T>
__attribute__((noinline)) void StorePartialTile(const Epilogue<T>& epilogue, T* to, BladeInt ldc,
                                                BladeInt n, const T* values, int rows, int width) {
  for (BladeInt j = 0; j < n; j += kLanes<T>) {
    const First<T> part(n - j);
    const Vec<T> bias = epilogue.bias != nullptr ? part.Load(epilogue.bias + j) : Vec<T>{};
    for (int i = 0; i < rows; ++i) {
      T* c = to + i * ldc + j;
      Vec<T> x = Load(values + i * width + j) * epilogue.scale;
      if (epilogue.accumulate) x += part.Load(c);
      if (epilogue.bias != nullptr) x += bias;
      if (epilogue.relu) x = Relu<T>(x);
      if (epilogue.residual != nullptr) x += part.Load(epilogue.residual + i * ldc + j);
      part.Store(c, x);
    }
  }
}

// Finishes and stores the accumulators of a tile.
template <typename T, int kRows, int kVectors>
BLADE_INLINE void FinishTile(Vec<T> (&sum)[kRows][kVectors], const Epilogue<T>& epilogue, T* c,
                             BladeInt ldc, BladeInt n) {
#define BLADE_EACH_ACCUMULATOR(statement)                                 \
  _Pragma("GCC unroll 16") for (int i = 0; i < kRows; ++i) {              \
    _Pragma("GCC unroll 4") for (int v = 0; v < kVectors; ++v) statement; \
  }
  if (n != kVectors * kLanes<T>) {
    T values[kRows][kVectors * kLanes<T>];
    BLADE_EACH_ACCUMULATOR(Store(&values[i][v * kLanes<T>], sum[i][v]))
    return StorePartialTile(epilogue, c, ldc, n, values[0], kRows, kVectors * kLanes<T>);
  }
  if (epilogue.scale != T(1)) {
    BLADE_EACH_ACCUMULATOR(sum[i][v] *= epilogue.scale)
  }
  if (epilogue.accumulate) {
    BLADE_EACH_ACCUMULATOR(sum[i][v] += Load(c + i * ldc + v * kLanes<T>))
  }
  if (epilogue.bias != nullptr) {
    BLADE_EACH_ACCUMULATOR(sum[i][v] += Load(epilogue.bias + v * kLanes<T>))
  }
  if (epilogue.relu) {
    BLADE_EACH_ACCUMULATOR(sum[i][v] = Relu<T>(sum[i][v]))
  }
  if (epilogue.residual != nullptr) {
    BLADE_EACH_ACCUMULATOR(sum[i][v] += Load(epilogue.residual + i * ldc + v * kLanes<T>))
  }
  BLADE_EACH_ACCUMULATOR(Store(c + i * ldc + v * kLanes<T>, sum[i][v]))
#undef BLADE_EACH_ACCUMULATOR
}

// A tile of kRows rows by kVectors vectors, all of it in registers. A tile with too few
// accumulators to hide the latency of a multiply-add cuts k into kChains parts and sums them side
// by side, which also reads B in as many streams.
template <typename T, int kRows, int kVectors, bool kPackedA>
void TileKernel(const Tile<T>& t) {
  constexpr int kAccumulators = kRows * kVectors;
  constexpr int kChains = kAccumulators >= 5 ? 1 : kAccumulators >= 3 ? 2 : 4;
  const BladeInt a_row = kPackedA ? 1 : t.a_row;
  const BladeInt part = t.k / kChains;
#pragma GCC unroll 16
  for (int i = 0; i < kRows; ++i) __builtin_prefetch(t.c + i * t.ldc, 1);
  Vec<T> sum[kChains][kRows][kVectors] = {};
  const T* a = t.a;
  const T* b = t.b;
  const T* next = t.next_b;
  const BladeInt a_part = part * t.a_k, b_part = part * t.b_k;
  for (BladeInt p = 0; p < part; ++p) {
#pragma GCC unroll 4
    for (int chain = 0; chain < kChains; ++chain) {
      Vec<T> bv[kVectors];
#pragma GCC unroll 4
      for (int v = 0; v < kVectors; ++v) bv[v] = Load(b + chain * b_part + v * kLanes<T>);
      if (kChains == 1) {
#pragma GCC unroll 4
        for (int v = 0; v < kVectors; v += 64 / BLADE_GEMM_VECTOR_BYTES) {
          __builtin_prefetch(next + v * kLanes<T>, 0, 2);
        }
      }
#pragma GCC unroll 16
      for (int i = 0; i < kRows; ++i) {
        const Vec<T> av = a[chain * a_part + i * a_row] - Vec<T>{};
#pragma GCC unroll 4
        for (int v = 0; v < kVectors; ++v) sum[chain][i][v] += av * bv[v];
      }
    }
    a += t.a_k;
    b += t.b_k;
    next += t.b_k;
  }
  for (BladeInt p = part * kChains; p < t.k; ++p) {
#pragma GCC unroll 16
    for (int i = 0; i < kRows; ++i) {
      const Vec<T> av = t.a[p * t.a_k + i * a_row] - Vec<T>{};
#pragma GCC unroll 4
      for (int v = 0; v < kVectors; ++v) {
        sum[0][i][v] += av * Load(t.b + p * t.b_k + v * kLanes<T>);
      }
    }
  }
#pragma GCC unroll 4
  for (int chain = 1; chain < kChains; ++chain) {
#pragma GCC unroll 16
    for (int i = 0; i < kRows; ++i) {
#pragma GCC unroll 4
      for (int v = 0; v < kVectors; ++v) sum[0][i][v] += sum[chain][i][v];
    }
  }
  FinishTile<T, kRows, kVectors>(sum[0], t.epilogue, t.c, t.ldc, t.n);
}

template <typename T>
BLADE_INLINE T Sum(Vec<T> v) {
  T lanes[kLanes<T>];
  Store(lanes, v);
  for (int width = kLanes<T> / 2; width > 0; width /= 2) {
    for (int i = 0; i < width; ++i) lanes[i] += lanes[i + width];
  }
  return lanes[0];
}

// kRows x kColumns inner products at once.
template <typename T, int kRows, int kColumns>
void DotBlock(const Dot<T>& d, BladeInt i0, BladeInt j0) {
  constexpr int kSums = kRows * kColumns;
  constexpr int kChains = kSums >= 8 ? 1 : kSums >= 4 ? 2 : kSums >= 2 ? 4 : 8;
  const T* a = d.a + i0 * d.lda;
  const T* b = d.b + j0 * d.ldb;
  Vec<T> sum[kChains][kRows][kColumns] = {};
  BladeInt p = 0;
  for (; p + kChains * kLanes<T> <= d.k; p += kChains * kLanes<T>) {
#pragma GCC unroll 8
    for (int chain = 0; chain < kChains; ++chain) {
      const BladeInt q = p + chain * kLanes<T>;
      Vec<T> bv[kColumns];
#pragma GCC unroll 4
      for (int j = 0; j < kColumns; ++j) bv[j] = Load(b + j * d.ldb + q);
#pragma GCC unroll 4
      for (int i = 0; i < kRows; ++i) {
        const Vec<T> av = Load(a + i * d.lda + q);
#pragma GCC unroll 4
        for (int j = 0; j < kColumns; ++j) sum[chain][i][j] += av * bv[j];
      }
    }
  }
  for (; p + kLanes<T> <= d.k; p += kLanes<T>) {
#pragma GCC unroll 4
    for (int i = 0; i < kRows; ++i) {
#pragma GCC unroll 4
      for (int j = 0; j < kColumns; ++j) {
        sum[0][i][j] += Load(a + i * d.lda + p) * Load(b + j * d.ldb + p);
      }
    }
  }
#pragma GCC unroll 4
  for (int i = 0; i < kRows; ++i) {
#pragma GCC unroll 4
    for (int j = 0; j < kColumns; ++j) {
#pragma GCC unroll 8
      for (int chain = 1; chain < kChains; ++chain) sum[0][i][j] += sum[chain][i][j];
      T x = Sum<T>(sum[0][i][j]);
      for (BladeInt q = p; q < d.k; ++q) x += a[i * d.lda + q] * b[j * d.ldb + q];
      const BladeInt place = (i0 + i) * d.ldc + j0 + j;
      T* c = d.c + place;
      const Epilogue<T>& epilogue = d.epilogue;
      *c = Finish(x, epilogue.accumulate ? *c : T(0),
                  epilogue.bias != nullptr ? epilogue.bias[j0 + j] : T(0),
                  epilogue.residual != nullptr ? epilogue.residual[place] : T(0), epilogue);
    }
  }
}

template <typename T, int kColumns>
BLADE_INLINE void DotColumns(const Dot<T>& d, BladeInt j) {
  BladeInt i = 0;
  for (; i + 4 <= d.m; i += 4) DotBlock<T, 4, kColumns>(d, i, j);
  for (; i + 2 <= d.m; i += 2) DotBlock<T, 2, kColumns>(d, i, j);
  for (; i < d.m; ++i) DotBlock<T, 1, kColumns>(d, i, j);
}

template <typename T>
void DotKernel(const Dot<T>& d) {
  BladeInt j = 0;
  if (d.m < 4) {
    // Few rows to share a load of B: more columns keep more sums in flight.
    for (; j + 4 <= d.n; j += 4) {
      BladeInt i = 0;
      for (; i + 2 <= d.m; i += 2) DotBlock<T, 2, 4>(d, i, j);
      for (; i < d.m; ++i) DotBlock<T, 1, 4>(d, i, j);
    }
  }
  for (; j + 2 <= d.n; j += 2) DotColumns<T, 2>(d, j);
  for (; j < d.n; ++j) DotColumns<T, 1>(d, j);
}

// c[i][j] += a[i][0..kDepth) * B[0..kDepth)[j] for a chunk of columns, which stays in L1.
template <typename T, int kRows, int kDepth>
void AxpyRows(const Axpy<T>& x, const T* a, const T* b, T* c, BladeInt n, bool first) {
  T scale[kRows][kDepth];
  Vec<T> scales[kRows][kDepth];
#pragma GCC unroll 4
  for (int i = 0; i < kRows; ++i) {
#pragma GCC unroll 8
    for (int p = 0; p < kDepth; ++p) {
      scale[i][p] = a[i * x.a_row + p * x.a_k];
      scales[i][p] = scale[i][p] - Vec<T>{};
    }
  }
  BladeInt j = 0;
  for (; j + kLanes<T> <= n; j += kLanes<T>) {
    Vec<T> sum[kRows];
#pragma GCC unroll 4
    for (int i = 0; i < kRows; ++i) sum[i] = first ? Vec<T>{} : Load(c + i * x.ldc + j);
#pragma GCC unroll 8
    for (int p = 0; p < kDepth; ++p) {
      const Vec<T> bv = Load(b + p * x.ldb + j);
#pragma GCC unroll 4
      for (int i = 0; i < kRows; ++i) sum[i] += scales[i][p] * bv;
    }
#pragma GCC unroll 4
    for (int i = 0; i < kRows; ++i) Store(c + i * x.ldc + j, sum[i]);
  }
  for (; j < n; ++j) {
#pragma GCC unroll 4
    for (int i = 0; i < kRows; ++i) {
      T sum = first ? T(0) : c[i * x.ldc + j];
#pragma GCC unroll 8
      for (int p = 0; p < kDepth; ++p) sum += scale[i][p] * b[p * x.ldb + j];
      c[i * x.ldc + j] = sum;
    }
  }
}

template <typename T, int kDepth>
BLADE_INLINE void AxpyDepth(const Axpy<T>& x, BladeInt p, BladeInt j, BladeInt n) {
  const T* a = x.a + p * x.a_k;
  const T* b = x.b + p * x.ldb + j;
  BladeInt i = 0;
  for (; i + 2 <= x.m; i += 2) {
    AxpyRows<T, 2, kDepth>(x, a + i * x.a_row, b, x.c + i * x.ldc + j, n, p == 0);
  }
  for (; i < x.m; ++i) {
    AxpyRows<T, 1, kDepth>(x, a + i * x.a_row, b, x.c + i * x.ldc + j, n, p == 0);
  }
}

template <typename T>
void AxpyKernel(const Axpy<T>& x) {
  constexpr BladeInt kChunk = 4096 / sizeof(T);
  for (BladeInt j = 0; j < x.n; j += kChunk) {
    const BladeInt n = x.n - j < kChunk ? x.n - j : kChunk;
    BladeInt p = 0;
    if (BLADE_GEMM_ROWS >= 6) {
      for (; p + 6 <= x.k; p += 6) AxpyDepth<T, 6>(x, p, j, n);
    }
    for (; p + 2 <= x.k; p += 2) AxpyDepth<T, 2>(x, p, j, n);
    for (; p < x.k; ++p) AxpyDepth<T, 1>(x, p, j, n);
    const Epilogue<T>& epilogue = x.epilogue;
    if (epilogue.bias == nullptr && !epilogue.relu && epilogue.scale == T(1) &&
        epilogue.residual == nullptr) {
      continue;
    }
    for (BladeInt i = 0; i < x.m; ++i) {
      const BladeInt row = i * x.ldc + j;
      T* c = x.c + row;
      for (BladeInt q = 0; q < n; ++q) {
        c[q] = Finish(c[q], T(0), epilogue.bias != nullptr ? epilogue.bias[j + q] : T(0),
                      epilogue.residual != nullptr ? epilogue.residual[row + q] : T(0), epilogue);
      }
    }
  }
}

BLADE_INLINE void TransposeQuad(const float* in, BladeInt stride, float* out, int width) {
  typedef int Mask __attribute__((vector_size(16)));
  using Q = Quad<float>;
  using U = VectorOf<float>::UnalignedQuad;
  const Q r0 = *reinterpret_cast<const U*>(in), r1 = *reinterpret_cast<const U*>(in + stride),
          r2 = *reinterpret_cast<const U*>(in + 2 * stride),
          r3 = *reinterpret_cast<const U*>(in + 3 * stride);
#if defined(__clang__)
#define BLADE_SHUFFLE(a, b, i, j, k, l) __builtin_shufflevector(a, b, i, j, k, l)
#else
#define BLADE_SHUFFLE(a, b, i, j, k, l) __builtin_shuffle(a, b, Mask{i, j, k, l})
#endif
  const Q low01 = BLADE_SHUFFLE(r0, r1, 0, 4, 1, 5), high01 = BLADE_SHUFFLE(r0, r1, 2, 6, 3, 7);
  const Q low23 = BLADE_SHUFFLE(r2, r3, 0, 4, 1, 5), high23 = BLADE_SHUFFLE(r2, r3, 2, 6, 3, 7);
  *reinterpret_cast<U*>(out) = BLADE_SHUFFLE(low01, low23, 0, 1, 4, 5);
  *reinterpret_cast<U*>(out + width) = BLADE_SHUFFLE(low01, low23, 2, 3, 6, 7);
  *reinterpret_cast<U*>(out + 2 * width) = BLADE_SHUFFLE(high01, high23, 0, 1, 4, 5);
  *reinterpret_cast<U*>(out + 3 * width) = BLADE_SHUFFLE(high01, high23, 2, 3, 6, 7);
#undef BLADE_SHUFFLE
}

BLADE_INLINE void TransposeQuad(const double* in, BladeInt stride, double* out, int width) {
  using Q = Quad<double>;
  using U = VectorOf<double>::UnalignedQuad;
  const Q r0 = *reinterpret_cast<const U*>(in), r1 = *reinterpret_cast<const U*>(in + stride);
  *reinterpret_cast<U*>(out) = Q{r0[0], r1[0]};
  *reinterpret_cast<U*>(out + width) = Q{r0[1], r1[1]};
}

template <typename T>
void Interleave(const T* in, BladeInt stride, BladeInt rows, BladeInt k, int width, T* out) {
  constexpr BladeInt kQuad = 16 / sizeof(T);
  const BladeInt whole_rows = rows / kQuad * kQuad, whole_k = k / kQuad * kQuad;
  for (BladeInt p = 0; p < whole_k; p += kQuad) {
    for (BladeInt i = 0; i < whole_rows; i += kQuad) {
      TransposeQuad(in + i * stride + p, stride, out + p * width + i, width);
    }
  }
  for (BladeInt i = 0; i < whole_rows; ++i) {
    for (BladeInt p = whole_k; p < k; ++p) out[p * width + i] = in[i * stride + p];
  }
  for (BladeInt i = whole_rows; i < rows; ++i) {
    for (BladeInt p = 0; p < k; ++p) out[p * width + i] = in[i * stride + p];
  }
  for (BladeInt i = rows; i < width; ++i) {
    for (BladeInt p = 0; p < k; ++p) out[p * width + i] = T(0);
  }
}

template <typename T>
void Copy(const T* in, BladeInt stride, BladeInt columns, BladeInt k, int width, T* out) {
  constexpr int kPanel = 2 * kLanes<T>;
  const BladeInt whole = width == kPanel ? columns / width * width : 0;
  for (BladeInt p = 0; p < k; ++p) {
    // Row by row, so that a row's cache lines and its page are used together.
    for (BladeInt i = 0; i < whole; i += kPanel) {
      const Vec<T> low = Load(in + i), high = Load(in + i + kLanes<T>);
      Store(out + i * k, low);
      Store(out + i * k + kLanes<T>, high);
    }
    for (BladeInt i = whole; i < columns; i += width) {
      for (int j = 0; j < width; ++j) out[i * k + j] = i + j < columns ? in[i + j] : T(0);
    }
    in += stride;
    out += width;
  }
}

}  // namespace
}  // namespace blade

#include "conv/window_kernels.h"

namespace blade {
namespace {

// Fills the tables for tiles of 1 to kRows rows.
template <typename T, int kRows>
void FillTiles(Kernels<T>& kernels) {
  kernels.tile[0][kRows - 1] = TileKernel<T, kRows, 1, false>;
  kernels.tile[1][kRows - 1] = TileKernel<T, kRows, 2, false>;
  kernels.tile_packed_a[0][kRows - 1] = TileKernel<T, kRows, 1, true>;
  kernels.tile_packed_a[1][kRows - 1] = TileKernel<T, kRows, 2, true>;
  kernels.window_tile[0][kRows - 1] = WindowTileKernel<T, kRows, 1>;
  kernels.window_tile[1][kRows - 1] = WindowTileKernel<T, kRows, 2>;
  if constexpr (kRows > 1) FillTiles<T, kRows - 1>(kernels);
}

template <typename T, int kFilters>
void FillPlanes(Kernels<T>& kernels) {
  kernels.planes[kFilters - 1] = PlaneKernel<T, kFilters>;
  if constexpr (kFilters > 1) FillPlanes<T, kFilters - 1>(kernels);
}

template <typename T>
void Fill(Kernels<T>& kernels) {
  static_assert(BLADE_GEMM_ROWS <= Kernels<T>::kMaxRows);
  static_assert(BLADE_GEMM_BLOCK * 2 * BLADE_GEMM_VECTOR_BYTES <= Kernels<T>::kMaxPanelBytes);
  kernels.isa = BLADE_GEMM_ISA;
  kernels.lanes = kLanes<T>;
  kernels.rows = BLADE_GEMM_ROWS;
  kernels.columns = 2 * kLanes<T>;
  kernels.block = BLADE_GEMM_BLOCK;
  FillTiles<T, BLADE_GEMM_ROWS>(kernels);
  kernels.dot = DotKernel<T>;
  kernels.axpy = AxpyKernel<T>;
  kernels.channels = ChannelKernel<T>;
  FillPlanes<T, Kernels<T>::kMaxPlaneFilters>(kernels);
  kernels.interleave = Interleave<T>;
  kernels.copy = Copy<T>;
}

}  // namespace

void BLADE_GEMM_TABLES(Kernels<float>& f32, Kernels<double>& f64) {
  Fill(f32);
  Fill(f64);
}

}  // namespace blade
