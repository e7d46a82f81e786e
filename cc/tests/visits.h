// What tests of parallel loops run.
#ifndef BLADE_TESTS_VISITS_H_
#define BLADE_TESTS_VISITS_H_

#include <atomic>
#include <vector>

#include "blade_abi.h"

namespace blade::testing {

// Counts how often each unit is visited.
struct Visits {
  explicit Visits(BladeInt n) : counts(n) {}
  static void Body(const void* args, BladeInt begin, BladeInt end) {
    auto* visits = const_cast<Visits*>(static_cast<const Visits*>(args));
    for (BladeInt i = begin; i < end; ++i) visits->counts[i].fetch_add(1);
  }
  bool AllOnce() const {
    for (const auto& count : counts) {
      if (count.load() != 1) return false;
    }
    return true;
  }
  std::vector<std::atomic<int>> counts;
};

}  // namespace blade::testing

#endif  // BLADE_TESTS_VISITS_H_
