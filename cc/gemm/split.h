// f32 products on matrix units that multiply bf16 (Intel AMX).
//
// A float has 24 significant bits, a bf16 has 8: every float is the sum of three of them, x = x1 +
// x2 + x3, each about 2^-9 of the one before. Of the nine products of parts six are computed,
//
//   a1 b3 + a1 b2 + a2 b2 + a2 b1 + a1 b1 + a3 b1,
//
// exactly, and added up in f32; what is left out is below 2^-26 of a b, less than f32 rounds off.
// The sums are as accurate as those of fused multiply-adds in f32 and take half the time. (Henry,
// Tang, Heinecke: Leveraging the bfloat16 Artificial Intelligence Datatype For Higher-Precision
// Computations, 2019.) Infinities, NaN and what rounds to them have no such parts: `split_*` say
// so, and the caller takes another way. Denormal numbers count as zero, as everywhere in
// TensorFlow.
#ifndef BLADE_GEMM_SPLIT_H_
#define BLADE_GEMM_SPLIT_H_

#include <cstdint>

#include "blade_abi.h"
#include "gemm/kernels.h"

namespace blade {

// k is cut into steps of kDepth, the last one padded with zeros. The parts of 16 rows of A are laid
// out [step][part][16 rows][32], those of a panel of 32 columns of B [step][16 columns, twice]
// [part][16 pairs of rows][16 columns][2].
struct SplitKernels {
  static constexpr int kRows = 16, kColumns = 32, kDepth = 32, kParts = 3;
  static constexpr int kTileSize = kRows * kDepth;  // numbers

  static BladeInt Steps(BladeInt k) { return (k + kDepth - 1) / kDepth; }
  // Numbers that m rows of A take, and a panel of B.
  static BladeInt SizeOfA(BladeInt m, BladeInt k) {
    return (m + kRows - 1) / kRows * Steps(k) * kParts * kTileSize;
  }
  static BladeInt SizeOfPanel(BladeInt k) { return 2 * Steps(k) * kParts * kTileSize; }

  // Writes the parts of A(i, p) = a[i * a_row + p]. False if there is a number that has none.
  bool (*split_a)(const float* a, BladeInt a_row, BladeInt m, BladeInt k, uint16_t* out);
  // Writes the parts of B(p, j) = panel[p * kColumns + j]; false as above.
  bool (*split_panel)(const float* panel, BladeInt k, uint16_t* out);
  // C[m][n] = A[m][k] * B[k][n] of parts, n up to kColumns. next_b: a panel to fetch into cache
  // meanwhile, or null; it is not read.
  void (*multiply)(const uint16_t* a, BladeInt m, const uint16_t* b, const uint16_t* next_b,
                   BladeInt k, float* c, BladeInt ldc, BladeInt n, const Epilogue<float>& epilogue);
};

// Null where this processor, system or build has no such unit.
const SplitKernels* BestSplitKernels();

}  // namespace blade

#endif  // BLADE_GEMM_SPLIT_H_
