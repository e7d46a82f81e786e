#include "gemm/gemm_internal.h"

namespace blade {
namespace {

// Up to here packing B on the way costs more than it saves.
constexpr BladeInt kFewRows = 4;

const char* Refuse(const BladeGemm& gemm, const PackedB* packed) {
  if (packed != nullptr) return "B is packed";
  if (gemm.transpose_b) return "B is transposed";
  if (gemm.m > kFewRows) return "many rows";
  if (gemm.k == 0) return "nothing to add";
  return nullptr;
}

void Run(const BladeGemm& gemm, const GemmHost& host, const PackedB*) {
  WithType(gemm, [&](const auto& g) {
    using T = std::decay_t<decltype(*g.c(0))>;
    const Grid grid = MakeGrid(gemm, host.threads, gemm.m, 64);
    ForEachPart(gemm, host, grid, [&](const Part& part) {
      Axpy<T> axpy;
      axpy.a = g.a(part.batch) + part.m0 * g.a_row;
      axpy.a_row = g.a_row;
      axpy.a_k = g.a_k;
      axpy.b = g.b(part.batch) + part.n0;
      axpy.ldb = gemm.ldb;
      axpy.k = gemm.k;
      axpy.c = g.c(part.batch) + part.m0 * gemm.ldc + part.n0;
      axpy.ldc = gemm.ldc;
      axpy.m = part.m1 - part.m0;
      axpy.n = part.n1 - part.n0;
      axpy.epilogue = g.epilogue(part.batch, part.m0, part.n0, true, true);
      BestKernels<T>().axpy(axpy);
    });
  });
}

}  // namespace

const GemmImplementation kGemmAxpy = {"gemm_axpy", Refuse, Run};

}  // namespace blade
