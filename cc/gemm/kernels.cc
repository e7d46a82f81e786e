#include "gemm/kernels.h"

#include "cpu_features.h"

namespace blade {

void FillKernelsBaseline(Kernels<float>& f32, Kernels<double>& f64);
void FillKernelsX8664V3(Kernels<float>& f32, Kernels<double>& f64);
void FillKernelsX8664V4(Kernels<float>& f32, Kernels<double>& f64);
void FillKernelsAArch64(Kernels<float>& f32, Kernels<double>& f64);

namespace {

struct Tables {
  Kernels<float> f32{};
  Kernels<double> f64{};

  Tables() { Fill(); }

 private:
  // The levels that were compiled in, best first.
  void Fill() {
#if defined(BLADE_HAS_X86_64_V4)
    if (SupportsIsa("x86-64-v4")) return FillKernelsX8664V4(f32, f64);
#endif
#if defined(BLADE_HAS_X86_64_V3)
    if (SupportsIsa("x86-64-v3")) return FillKernelsX8664V3(f32, f64);
#endif
#if defined(__aarch64__)
    if (SupportsIsa("aarch64")) return FillKernelsAArch64(f32, f64);
#endif
    FillKernelsBaseline(f32, f64);
  }
};

const Tables& Best() {
  static const Tables tables;
  return tables;
}

}  // namespace

template <>
const Kernels<float>& BestKernels<float>() {
  return Best().f32;
}

template <>
const Kernels<double>& BestKernels<double>() {
  return Best().f64;
}

}  // namespace blade
