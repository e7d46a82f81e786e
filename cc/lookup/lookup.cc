#include "lookup/lookup.h"

#include "lookup/run.h"
#include "lookup/storage.h"

namespace blade {

Lookup::Lookup() : storage_(std::make_unique<Storage>()) {}
Lookup::~Lookup() = default;

int Lookup::Run(const BladeHost& host, void* ctx, const BladeTensor* inputs,
                bool find_repeats) const {
  return BestRunPlan()(plan_, find_repeats, &host, ctx, inputs);
}

std::string Lookup::Reason(int status) const {
  if (status == BLADE_OUT_OF_MEMORY) return "out of memory";
  if (status <= 0) return "the host failed";
  const size_t column = static_cast<size_t>(status - 1) / blade_lookup::kNumberOfReasons;
  const char* reason = blade_lookup::kReasons[(status - 1) % blade_lookup::kNumberOfReasons];
  if (column >= columns_.size()) return reason;
  return "column '" + columns_[column] + "': " + reason;
}

}  // namespace blade
