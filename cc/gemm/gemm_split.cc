// The product of bf16 parts: for a part of C, over blocks of k and of rows of A,
//
//   A's block is split on the stack (L2);
//   panels of B come split from the packed constant, or are split on the stack one at a time;
//   pairs of tiles of 16 rows run down the block.
//
// A part of C whose operands can't be split is computed by vectors.
#include <cstdint>

#include "gemm/gemm_internal.h"
#include "gemm/repeated_rows.h"
#include "gemm/split.h"

namespace blade {
namespace {

constexpr BladeInt kMostRows = 128, kMostDepth = 512;  // of a block
constexpr BladeInt kWidth = SplitKernels::kColumns;

// A task has at least so many rows: with fewer, reading B's parts takes too long.
constexpr BladeInt kFewestRows = 32;

bool HasPanels(const PackedB* packed) { return packed != nullptr && packed->columns != 0; }

// Cycles that so many rows and columns take: multiplying, storing C, splitting A, reading or
// splitting B.
double Cycles(BladeInt rows, BladeInt columns, BladeInt k, bool b_is_split) {
  const double c = static_cast<double>(rows) * columns;
  const double a = 0.7 * static_cast<double>(rows);
  const double b = (b_is_split ? 0.25 : 1.5) * static_cast<double>(columns);
  return (c / 75 + a + b) * k + 0.25 * c + 500;
}

// The same for vectors that need no splitting.
double CyclesOfVectors(const BladeGemm& gemm, bool b_is_packed) {
  const double b = b_is_packed ? 0 : 0.3 * static_cast<double>(gemm.n);
  return (static_cast<double>(gemm.m) * gemm.n / 30 + b) * gemm.k;
}

const char* Refuse(const BladeGemm& gemm, const PackedB* packed) {
  if (BestSplitKernels() == nullptr) return "the processor has no matrix unit for bf16";
  if (gemm.dtype != BLADE_F32) return "not f32";
  if (gemm.transpose_a) return "A is transposed";
  const bool constant = HasPanels(packed);
  if (gemm.m < kFewestRows ||
      Cycles(gemm.m, gemm.n, gemm.k, constant) > 0.9 * CyclesOfVectors(gemm, constant)) {
    return "too small";
  }
  if (constant && packed->Split() == nullptr) return "B can't be split";
  return nullptr;
}

// The cut that is done first. Every task splits its rows of A, so that columns are cut last.
Grid Cut(const BladeGemm& gemm, int threads, bool b_is_split) {
  constexpr double kSmallestTask = 20e3;  // cycles, as in MakeGrid
  constexpr BladeInt kTasksPerThread = 3;
  Grid best{gemm.batch, 1, 1, gemm.m, gemm.n};
  if (threads <= 1) return best;
  const BladeInt panels = (gemm.n - 1) / kWidth + 1;
  const BladeInt most = kTasksPerThread * threads;
  double least = -1;
  for (BladeInt rows = 1; rows <= std::min(most, gemm.m / kFewestRows); ++rows) {
    for (BladeInt columns = 1; columns <= std::min(most, panels); ++columns) {
      Grid grid{gemm.batch, rows, columns, (gemm.m - 1) / rows + 1,
                ((panels - 1) / columns + 1) * kWidth};
      grid.row_parts = (gemm.m - 1) / grid.rows_per_part + 1;
      grid.column_parts = (gemm.n - 1) / grid.columns_per_part + 1;
      const double task = Cycles(grid.rows_per_part, grid.columns_per_part, gemm.k, b_is_split);
      if (grid.tasks() > 1 && task < kSmallestTask) continue;
      const double time = static_cast<double>((grid.tasks() - 1) / threads + 1) * task;
      if (least < 0 || time < least) {
        least = time;
        best = grid;
      }
    }
  }
  return best;
}

class PartRunner {
 public:
  PartRunner(const TypedGemm<float>& typed, const uint16_t* split_b, const Part& part)
      : typed_(typed), gemm_(typed.gemm), part_(part), split_b_(split_b) {}

  // False if a number can't be split; C may then have been written to.
  bool Run() {
    const BladeInt parts_k = (gemm_.k - 1) / kMostDepth + 1;
    const BladeInt step_k = SplitKernels::Steps((gemm_.k - 1) / parts_k + 1) * SplitKernels::kDepth;
    const BladeInt parts_m = (part_.m1 - part_.m0 - 1) / kMostRows + 1;
    const BladeInt step_m = (part_.m1 - part_.m0 - 1) / parts_m + 1;
    for (BladeInt k0 = 0; k0 < gemm_.k; k0 += step_k) {
      const BladeInt k = std::min(step_k, gemm_.k - k0);
      for (BladeInt m0 = part_.m0; m0 < part_.m1; m0 += step_m) {
        if (!RunBlock(m0, std::min(step_m, part_.m1 - m0), k0, k)) return false;
      }
    }
    return true;
  }

 private:
  bool RunBlock(BladeInt m0, BladeInt m, BladeInt k0, BladeInt k) {
    const float* a = typed_.a(part_.batch) + m0 * typed_.a_row + k0;
    if (!kernels_.split_a(a, typed_.a_row, m, k, a_)) return false;
    for (BladeInt n0 = part_.n0; n0 < part_.n1; n0 += kWidth) {
      const BladeInt n = std::min(kWidth, part_.n1 - n0);
      const uint16_t* b = Panel(n0, n, k0, k);
      if (b == nullptr) return false;
      float* c = typed_.c(part_.batch) + m0 * gemm_.ldc + n0;
      const uint16_t* next = fetch_ ? b + SplitKernels::SizeOfPanel(gemm_.k) : nullptr;
      kernels_.multiply(a_, m, b, next, k, c, gemm_.ldc, n,
                        typed_.epilogue(part_.batch, m0, n0, k0 == 0, k0 + k == gemm_.k));
    }
    return true;
  }

  // Rows [k0, k0 + k) of the panel of B that begins with column n0, split; null if it can't be.
  const uint16_t* Panel(BladeInt n0, BladeInt n, BladeInt k0, BladeInt k) {
    if (split_b_ != nullptr) {
      return split_b_ + n0 / kWidth * SplitKernels::SizeOfPanel(gemm_.k) +
             SplitKernels::SizeOfPanel(k0);
    }
    const Kernels<float>& kernels = BestKernels<float>();
    const float* b = typed_.b(part_.batch);
    if (gemm_.transpose_b) {
      kernels.interleave(b + n0 * gemm_.ldb + k0, gemm_.ldb, n, k, kWidth, panel_);
    } else {
      kernels.copy(b + k0 * gemm_.ldb + n0, gemm_.ldb, n, k, kWidth, panel_);
    }
    return kernels_.split_panel(panel_, k, b_) ? b_ : nullptr;
  }

  const TypedGemm<float>& typed_;
  const BladeGemm& gemm_;
  const Part part_;
  const uint16_t* split_b_;
  // Panels of a B that stays in the second-level cache need not be fetched.
  const bool fetch_ = split_b_ != nullptr && gemm_.k * gemm_.n > 200'000;
  const SplitKernels& kernels_ = *BestSplitKernels();
  static constexpr BladeInt kSteps = kMostDepth / SplitKernels::kDepth;
  static constexpr BladeInt kTiles = kMostRows / SplitKernels::kRows;
  static constexpr BladeInt kStep = SplitKernels::kParts * SplitKernels::kTileSize;
  alignas(64) float panel_[kWidth * kMostDepth];
  alignas(64) uint16_t b_[2 * kSteps * kStep];
  alignas(64) uint16_t a_[kTiles * kSteps * kStep];
};

// Whether computing the columns that are the same in all rows once leaves vectors less to do than
// all of them take here.
bool RepeatsPay(const RepeatedRows<float>& repeats, BladeInt k) { return 2 * repeats.rest() < k; }

void Run(const BladeGemm& gemm, const GemmHost& host, const PackedB* packed) {
  const TypedGemm<float> typed(gemm);
  RepeatedRows<float> repeats;
  if (host.count != nullptr && repeats.Find(typed, host) && RepeatsPay(repeats, gemm.k)) {
    return RunPacked(typed, host, packed, &repeats);
  }
  const bool constant = HasPanels(packed);
  const BladeInt panels = (gemm.n - 1) / kWidth + 1;
  const BladeInt entry = gemm.b_stride == 0 ? 0 : panels * SplitKernels::SizeOfPanel(gemm.k);
  const uint16_t* split_b = constant ? packed->Split() : nullptr;
  const Grid grid = Cut(gemm, host.threads, constant);
  const double cycles = Cycles(grid.rows_per_part, grid.columns_per_part, gemm.k, constant);
  ForEachPart(gemm, host, grid, cycles, [&](const Part& part) {
    const uint16_t* b = constant ? split_b + part.batch * entry : nullptr;
    if (!PartRunner(typed, b, part).Run()) RunPackedPart<float>(typed, packed, part, nullptr);
  });
}

}  // namespace

const GemmImplementation kGemmSplit = {"gemm_split", Refuse, Run};

}  // namespace blade
