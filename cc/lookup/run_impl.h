// Included once by each run_<isa>.cc, with BLADE_LOOKUP_RUN the name of the function to define.
#include "kernels/lookup.h"
#include "lookup/run.h"

namespace blade {

int BLADE_LOOKUP_RUN(const blade_lookup::LookupPlan& plan, bool find_repeats, const BladeHost* host,
                     void* ctx, const BladeTensor* inputs) {
  return blade_lookup::RunLookup(plan, {find_repeats}, host, ctx, inputs);
}

}  // namespace blade
