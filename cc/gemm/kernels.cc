#include "gemm/kernels.h"

#include "cpu_features.h"

namespace blade {

void FillKernelsBaseline(Kernels<float>& f32, Kernels<double>& f64);
#if defined(__x86_64__)
void FillKernelsX8664V3(Kernels<float>& f32, Kernels<double>& f64);
void FillKernelsX8664V4(Kernels<float>& f32, Kernels<double>& f64);
#elif defined(__aarch64__)
void FillKernelsAArch64(Kernels<float>& f32, Kernels<double>& f64);
#endif

namespace {

struct Tables {
  Kernels<float> f32{};
  Kernels<double> f64{};

  Tables() {
    switch (BestIsa()) {
#if defined(__x86_64__)
      case Isa::kX8664V4:
        FillKernelsX8664V4(f32, f64);
        break;
      case Isa::kX8664V3:
        FillKernelsX8664V3(f32, f64);
        break;
#elif defined(__aarch64__)
      case Isa::kAArch64:
        FillKernelsAArch64(f32, f64);
        break;
#endif
      default:
        FillKernelsBaseline(f32, f64);
        break;
    }
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
