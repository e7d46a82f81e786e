// What TensorFlow's CPU allocator counts, for peak_memory.py.
#include <cstdint>

// Headers of Eigen come along, and GCC 12 can't compile those for -march=native everywhere.
#define EIGEN_DONT_VECTORIZE
#include "xla/tsl/framework/allocator.h"

extern "C" void start_counting() {
  tsl::EnableCPUAllocatorStats();
  (void)tsl::cpu_allocator()->ClearStats();
}

extern "C" int64_t peak_bytes_in_use() {
  const auto stats = tsl::cpu_allocator()->GetStats();
  return stats ? stats->peak_bytes_in_use : 0;
}

extern "C" int64_t bytes_in_use() {
  const auto stats = tsl::cpu_allocator()->GetStats();
  return stats ? stats->bytes_in_use : 0;
}

extern "C" void stop_counting() { tsl::DisableCPUAllocatorStats(); }
