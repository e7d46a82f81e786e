// What happened to each cluster in this process: launches, and fallbacks by cause.
#ifndef BLADE_COUNTERS_H_
#define BLADE_COUNTERS_H_

#include <atomic>
#include <cstdint>
#include <map>
#include <mutex>
#include <string>

namespace blade {

// One cluster's counters. Kernels of the same cluster share them. Thread-safe; counting a launch
// takes no lock.
class ClusterCounters {
 public:
  // The counters of `cluster`, made on first use. They live as long as the process.
  static ClusterCounters* For(const std::string& cluster);

  void CountLaunch() { launches_.fetch_add(1, std::memory_order_relaxed); }

  // Columns, of lookups or matrices, whose rows were all the same, so that they were computed once.
  void CountRepeatedRows(uint64_t columns) {
    repeated_rows_.fetch_add(columns, std::memory_order_relaxed);
  }

  // True the first time that `cause` is counted for this cluster.
  bool CountFallback(const std::string& cause);

  // {"CLUSTER": {"launches": N, "repeated_rows": N, "fallbacks": {"CAUSE": N, ...}}, ...} over all
  // clusters.
  static std::string AllAsJson();

  // Sets all counts to zero. Causes that were counted before stay known to CountFallback.
  static void ResetAll();

 private:
  std::atomic<uint64_t> launches_{0};
  std::atomic<uint64_t> repeated_rows_{0};
  std::mutex mutex_;
  std::map<std::string, uint64_t> fallbacks_;
};

}  // namespace blade

#endif  // BLADE_COUNTERS_H_
