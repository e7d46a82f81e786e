// Executables that are still being compiled while the ops that want them already run.
#ifndef BLADE_PENDING_EXECUTABLE_H_
#define BLADE_PENDING_EXECUTABLE_H_

#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>

#include "executable.h"

namespace blade {

// One executable to come, known by its key. Thread-safe; asking whether it has come takes no lock.
class PendingExecutable {
 public:
  // The one of `key`, made on first use. They live as long as the process.
  static PendingExecutable* For(const std::string& key);

  // Loads the container that the compiler has made. Only the first Finish or Fail counts.
  void Finish(std::string_view container);

  // There will be none.
  void Fail(std::string reason);

  // Whether there is an executable, or an error, by now. Never goes back to false.
  bool done() const { return done_.load(std::memory_order_acquire); }

  // Once done: the executable; null if there is none.
  const std::shared_ptr<const Executable>& executable() const { return executable_; }

  // Once done: why there is no executable.
  const std::string& error() const { return error_; }

 private:
  void Settle(std::shared_ptr<const Executable> executable, std::string error);

  std::mutex mutex_;
  std::atomic<bool> done_{false};
  std::shared_ptr<const Executable> executable_;
  std::string error_;
};

}  // namespace blade

#endif  // BLADE_PENDING_EXECUTABLE_H_
