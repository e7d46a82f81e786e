// A small fork-join pool, for hosts that have no thread pool of their own.
#ifndef BLADE_THREAD_POOL_H_
#define BLADE_THREAD_POOL_H_

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <thread>
#include <vector>

#include "blade_abi.h"

namespace blade {

// Runs one parallel loop at a time on `threads` threads, the caller's included. Thread-safe: a loop
// that finds the pool busy (another caller's, or one nested in a body) runs on its own thread.
class ThreadPool {
 public:
  explicit ThreadPool(int threads);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int threads() const { return static_cast<int>(workers_.size()) + 1; }

  // Calls body on disjoint ranges of about `block` units that cover [0, total); returns when all
  // are done. `block` must be positive.
  void ParallelFor(BladeInt total, BladeInt block, BladeBody body, const void* args);

 private:
  struct Loop;

  void Work();

  std::atomic<bool> busy_{false};  // a caller's loop is running

  std::mutex mutex_;  // guards what follows
  std::condition_variable wake_, done_;
  Loop* loop_ = nullptr;
  int helpers_ = 0;  // workers inside *loop_
  bool stop_ = false;

  std::vector<std::thread> workers_;
};

// How many units of a loop are worth a thread of their own: the whole loop (run it inline) when it
// is small, else a share that gives each of `threads` threads a few blocks to balance with.
BladeInt BlockSize(BladeInt total, double cost_cycles, int threads);

}  // namespace blade

#endif  // BLADE_THREAD_POOL_H_
