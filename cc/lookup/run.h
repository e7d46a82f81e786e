// RunLookup of kernels/lookup.h, compiled for each instruction set level.
#ifndef BLADE_LOOKUP_RUN_H_
#define BLADE_LOOKUP_RUN_H_

#include "kernels/plan.h"

namespace blade {

using RunPlan = int (*)(const blade_lookup::LookupPlan& plan, bool find_repeats,
                        const BladeHost* host, void* ctx, const BladeTensor* inputs);

// The one for this processor.
RunPlan BestRunPlan();

}  // namespace blade

#endif  // BLADE_LOOKUP_RUN_H_
