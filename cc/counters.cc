#include "counters.h"

#include <cstdio>

namespace blade {
namespace {

struct Registry {
  std::mutex mutex;
  std::map<std::string, ClusterCounters> clusters;  // nodes of a map don't move

  static Registry& Get() {
    static Registry* registry = new Registry;  // outlives every kernel
    return *registry;
  }
};

std::string Quote(const std::string& text) {
  std::string quoted = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      quoted += '\\';
      quoted += c;
    } else if (static_cast<unsigned char>(c) < 0x20) {
      char escape[8];
      std::snprintf(escape, sizeof(escape), "\\u%04x", static_cast<unsigned>(c));
      quoted += escape;
    } else {
      quoted += c;
    }
  }
  return quoted + '"';
}

}  // namespace

ClusterCounters* ClusterCounters::For(const std::string& cluster) {
  Registry& registry = Registry::Get();
  std::lock_guard<std::mutex> lock(registry.mutex);
  return &registry.clusters[cluster];
}

bool ClusterCounters::CountFallback(const std::string& cause) {
  std::lock_guard<std::mutex> lock(mutex_);
  const auto [entry, is_new] = fallbacks_.try_emplace(cause, 0);
  ++entry->second;
  return is_new;
}

std::string ClusterCounters::AllAsJson() {
  Registry& registry = Registry::Get();
  std::lock_guard<std::mutex> lock(registry.mutex);
  std::string json = "{";
  for (auto& [name, counters] : registry.clusters) {
    if (json.size() > 1) json += ", ";
    json += Quote(name) + ": {\"launches\": " + std::to_string(counters.launches_.load()) +
            ", \"repeated_rows\": " + std::to_string(counters.repeated_rows_.load()) +
            ", \"fallbacks\": {";
    std::lock_guard<std::mutex> cluster_lock(counters.mutex_);
    bool first = true;
    for (const auto& [cause, count] : counters.fallbacks_) {
      if (count == 0) continue;
      if (!first) json += ", ";
      first = false;
      json += Quote(cause) + ": " + std::to_string(count);
    }
    json += "}}";
  }
  return json + "}";
}

void ClusterCounters::ResetAll() {
  Registry& registry = Registry::Get();
  std::lock_guard<std::mutex> lock(registry.mutex);
  for (auto& [name, counters] : registry.clusters) {
    counters.launches_.store(0);
    counters.repeated_rows_.store(0);
    std::lock_guard<std::mutex> cluster_lock(counters.mutex_);
    for (auto& [cause, count] : counters.fallbacks_) count = 0;
  }
}

}  // namespace blade
