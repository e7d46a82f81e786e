#include "pending_executable.h"

#include <map>
#include <utility>

namespace blade {
namespace {

struct Registry {
  std::mutex mutex;
  std::map<std::string, PendingExecutable> pending;  // nodes of a map don't move

  static Registry& Get() {
    static Registry* registry = new Registry;  // outlives every kernel
    return *registry;
  }
};

}  // namespace

PendingExecutable* PendingExecutable::For(const std::string& key) {
  Registry& registry = Registry::Get();
  std::lock_guard<std::mutex> lock(registry.mutex);
  return &registry.pending[key];
}

void PendingExecutable::Finish(std::string_view container) {
  std::string error;
  std::shared_ptr<const Executable> executable = Executable::Load(container, &error);
  Settle(std::move(executable), std::move(error));
}

void PendingExecutable::Fail(std::string reason) { Settle(nullptr, std::move(reason)); }

void PendingExecutable::Settle(std::shared_ptr<const Executable> executable, std::string error) {
  std::lock_guard<std::mutex> lock(mutex_);
  if (done()) return;
  executable_ = std::move(executable);
  error_ = std::move(error);
  done_.store(true, std::memory_order_release);
}

}  // namespace blade
