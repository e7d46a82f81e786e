#include "gemm/split.h"

#include "cpu_features.h"

namespace blade {

extern const SplitKernels kSplitAmx;

const SplitKernels* BestSplitKernels() {
#if defined(BLADE_HAS_AMX)
  static const SplitKernels* const best = HasAmxBf16() ? &kSplitAmx : nullptr;
  return best;
#else
  return nullptr;
#endif
}

}  // namespace blade
