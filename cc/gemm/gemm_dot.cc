#include "gemm/gemm_internal.h"

namespace blade {
namespace {

// Few columns leave most of a panel's width idle; few rows don't pay for packing B.
constexpr BladeInt kFewColumns = 3, kFewRows = 16;

const char* Refuse(const BladeGemm& gemm, const PackedB* packed) {
  if (gemm.transpose_a && gemm.m > 1) return "the rows of A are not contiguous";
  if (gemm.transpose_a && gemm.lda != 1) return "the row of A is not contiguous";
  if (packed != nullptr) return packed->columns == 0 ? nullptr : "B is packed in panels";
  // One column of B is contiguous when rows have one element.
  const bool columns_contiguous = gemm.transpose_b || (gemm.n == 1 && gemm.ldb == 1);
  if (!columns_contiguous) return "the columns of B are not contiguous";
  if (gemm.n > kFewColumns && gemm.m > kFewRows) return "many rows and columns";
  return nullptr;
}

void Run(const BladeGemm& gemm, const GemmHost& host, const PackedB* packed) {
  WithType(gemm, [&](const auto& g) {
    using T = std::decay_t<decltype(*g.c(0))>;
    const Grid grid = MakeGrid(gemm, host.threads, 4, 4);
    ForEachPart(gemm, host, grid, [&](const Part& part) {
      const BladeInt ldb = packed ? gemm.k : gemm.transpose_b ? gemm.ldb : gemm.k;
      const T* b = packed ? packed->Entry<T>(part.batch) : g.b(part.batch);
      Dot<T> dot;
      dot.a = g.a(part.batch) + part.m0 * gemm.lda;
      dot.lda = gemm.lda;
      dot.b = b + part.n0 * ldb;
      dot.ldb = ldb;
      dot.k = gemm.k;
      dot.c = g.c(part.batch) + part.m0 * gemm.ldc + part.n0;
      dot.ldc = gemm.ldc;
      dot.m = part.m1 - part.m0;
      dot.n = part.n1 - part.n0;
      dot.epilogue = g.epilogue(part.batch, part.m0, part.n0, true, true);
      BestKernels<T>().dot(dot);
    });
  });
}

}  // namespace

const GemmImplementation kGemmDot = {"gemm_dot", Refuse, Run};

}  // namespace blade
