#include "gemm/gemm.h"

#include <string>

#include "gemm/gemm_internal.h"

namespace blade {
namespace {

// Best first. The first one that doesn't refuse runs.
constexpr const GemmImplementation* kImplementations[] = {
    &kGemmDot, &kGemmAxpy, &kGemmSplit, &kGemmPacked, &kGemmReference,
};

const GemmImplementation& Choose(const BladeGemm& gemm, const PackedB* packed) {
  for (const GemmImplementation* implementation : kImplementations) {
    if (implementation->refuse(gemm, packed) == nullptr) return *implementation;
  }
  return kGemmReference;
}

// [batch, m, k] x [k, n] is [batch * m, k] x [k, n] when nothing lies between the batch entries.
BladeGemm FoldBatch(const BladeGemm& gemm) {
  BladeGemm folded = gemm;
  const bool one_b = gemm.b_stride == 0 && gemm.batch > 1;
  if (one_b && !gemm.transpose_a && gemm.a_stride == gemm.m * gemm.lda &&
      gemm.c_stride == gemm.m * gemm.ldc) {
    folded.m = gemm.batch * gemm.m;
    folded.batch = 1;
    folded.a_stride = folded.c_stride = 0;
  }
  return folded;
}

}  // namespace

Grid MakeGrid(const BladeGemm& gemm, int threads, BladeInt row_unit, BladeInt column_unit) {
  constexpr double kSmallestTask = 20e3;  // cycles; waking a thread takes about as many
  constexpr int kTasksPerThread = 3;      // to balance threads that start late
  Grid grid{gemm.batch, 1, 1, gemm.m, gemm.n};
  if (threads <= 1) return grid;
  const double cycles = EstimatedCycles(gemm, gemm.m, gemm.n, gemm.k);
  const double most =
      std::min(cycles * gemm.batch / kSmallestTask, static_cast<double>(threads) * kTasksPerThread);
  const BladeInt wanted = static_cast<BladeInt>(most / gemm.batch);
  if (wanted <= 1) return grid;

  const BladeInt row_units = (gemm.m - 1) / row_unit + 1;
  const BladeInt column_units = (gemm.n - 1) / column_unit + 1;
  // Cutting the longer side keeps parts square: least is read for what is computed.
  if (gemm.m > gemm.n) {
    grid.row_parts = std::min(wanted, row_units);
    grid.column_parts = std::min(wanted / grid.row_parts, column_units);
  } else {
    grid.column_parts = std::min(wanted, column_units);
    grid.row_parts = std::min(wanted / grid.column_parts, row_units);
  }
  grid.rows_per_part = ((row_units - 1) / grid.row_parts + 1) * row_unit;
  grid.columns_per_part = ((column_units - 1) / grid.column_parts + 1) * column_unit;
  grid.row_parts = (gemm.m - 1) / grid.rows_per_part + 1;
  grid.column_parts = (gemm.n - 1) / grid.columns_per_part + 1;
  return grid;
}

Part PartOf(const BladeGemm& gemm, const Grid& grid, BladeInt task) {
  const BladeInt column = task % grid.column_parts;
  const BladeInt row = task / grid.column_parts % grid.row_parts;
  Part part;
  part.batch = task / (grid.column_parts * grid.row_parts);
  part.m0 = row * grid.rows_per_part;
  part.m1 = std::min(part.m0 + grid.rows_per_part, gemm.m);
  part.n0 = column * grid.columns_per_part;
  part.n1 = std::min(part.n0 + grid.columns_per_part, gemm.n);
  return part;
}

int RunGemm(const BladeGemm& gemm, const GemmHost& host, const PackedB* packed) {
  if (gemm.dtype != BLADE_F32 && gemm.dtype != BLADE_F64) return BLADE_HOST_ERROR;
  if (gemm.batch <= 0 || gemm.m <= 0 || gemm.n <= 0) return BLADE_OK;
  const BladeGemm folded = FoldBatch(gemm);
  Choose(folded, packed).run(folded, host, packed);
  return BLADE_OK;
}

const char* GemmImplementationName(const BladeGemm& gemm, const PackedB* packed) {
  return Choose(FoldBatch(gemm), packed).name;
}

}  // namespace blade
