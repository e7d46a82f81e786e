#include "gemm/gemm_internal.h"

namespace blade {
namespace {

const char* Refuse(const BladeGemm&, const PackedB*) { return nullptr; }

void Run(const BladeGemm& gemm, const GemmHost&, const PackedB*) {
  WithType(gemm, [](const auto& g) {
    using T = std::decay_t<decltype(*g.c(0))>;
    const BladeInt b_k = g.gemm.transpose_b ? 1 : g.gemm.ldb;
    const BladeInt b_column = g.gemm.transpose_b ? g.gemm.ldb : 1;
    for (BladeInt batch = 0; batch < g.gemm.batch; ++batch) {
      const T* a = g.a(batch);
      const T* b = g.b(batch);
      T* c = g.c(batch);
      for (BladeInt i = 0; i < g.gemm.m; ++i) {
        for (BladeInt j = 0; j < g.gemm.n; ++j) {
          double sum = 0;
          for (BladeInt p = 0; p < g.gemm.k; ++p) {
            sum += static_cast<double>(a[i * g.a_row + p * g.a_k]) * b[p * b_k + j * b_column];
          }
          T x = static_cast<T>(sum) * g.scale;
          if (g.bias != nullptr) x += g.bias[j];
          if (g.relu) x = x < T(0) ? T(0) : x;
          const BladeInt place = i * g.gemm.ldc + j;
          if (g.residual != nullptr) x += g.residual[batch * g.gemm.c_stride + place];
          c[place] = x;
        }
      }
    }
  });
}

}  // namespace

const GemmImplementation kGemmReference = {"gemm_reference", Refuse, Run};

}  // namespace blade
