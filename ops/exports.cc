// C functions for tf_blade/library.py, which calls them through ctypes.
#include <string>

#include "counters.h"

#define BLADE_EXPORT extern "C" __attribute__((visibility("default")))

// The TensorFlow version this library was built for, e.g. "2.21.0".
BLADE_EXPORT const char* tf_blade_built_for() { return BLADE_TF_VERSION; }

// ClusterCounters::AllAsJson. Valid until the calling thread's next call.
BLADE_EXPORT const char* tf_blade_counters_json() {
  thread_local std::string json;
  json = blade::ClusterCounters::AllAsJson();
  return json.c_str();
}

BLADE_EXPORT void tf_blade_reset_counters() { blade::ClusterCounters::ResetAll(); }
