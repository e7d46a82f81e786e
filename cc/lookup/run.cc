#include "lookup/run.h"

#include "cpu_features.h"

namespace blade {

#define BLADE_LOOKUP_DECLARE(name)                                                         \
  int name(const blade_lookup::LookupPlan& plan, bool find_repeats, const BladeHost* host, \
           void* ctx, const BladeTensor* inputs)
BLADE_LOOKUP_DECLARE(RunLookupBaseline);
BLADE_LOOKUP_DECLARE(RunLookupX8664V3);
BLADE_LOOKUP_DECLARE(RunLookupX8664V4);
#undef BLADE_LOOKUP_DECLARE

namespace {

// Of the levels that were compiled in, the best.
RunPlan Choose() {
#if defined(BLADE_HAS_X86_64_V4)
  if (SupportsIsa("x86-64-v4")) return RunLookupX8664V4;
#endif
#if defined(BLADE_HAS_X86_64_V3)
  if (SupportsIsa("x86-64-v3")) return RunLookupX8664V3;
#endif
  return RunLookupBaseline;
}

}  // namespace

RunPlan BestRunPlan() {
  static const RunPlan best = Choose();
  return best;
}

}  // namespace blade
