// A fused lookup from its text form (tf_blade/feature_column/text.py), interpreted.
#ifndef BLADE_LOOKUP_H_
#define BLADE_LOOKUP_H_

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "blade_abi.h"
#include "kernels/plan.h"

namespace blade {

// Immutable; any number of threads may run one at the same time, without a lock.
class Lookup {
 public:
  // Null, with a message, for text that is no lookup.
  static std::shared_ptr<const Lookup> Parse(std::string_view text, std::string* error);
  ~Lookup();
  Lookup(const Lookup&) = delete;
  Lookup& operator=(const Lookup&) = delete;

  int n_inputs() const { return plan_.n_inputs; }
  int n_outputs() const { return plan_.n_outputs; }
  const blade_lookup::LookupPlan& plan() const { return plan_; }

  // As BladeRun; runs the code for this processor. A table's input is its f32 tensor. Rows of a
  // stream that hold the same elements are found and computed once, unless find_repeats is false.
  int Run(const BladeHost& host, void* ctx, const BladeTensor* inputs,
          bool find_repeats = true) const;

  // The text of a status of Run that isn't BLADE_OK.
  std::string Reason(int status) const;

 private:
  struct Storage;  // what the plan points to
  friend class LookupParser;

  Lookup();

  std::unique_ptr<Storage> storage_;
  blade_lookup::LookupPlan plan_{};
  std::vector<std::string> columns_;  // names of the plan's bags, streams and dense parts
};

}  // namespace blade

#endif  // BLADE_LOOKUP_H_
