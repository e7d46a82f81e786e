// A parallel loop whose caller begins at once and never waits for a thread to wake up.
//
// Waking a thread takes 10 to 50 µs, as long as many loops here take in all. So the caller takes
// blocks from the start; helpers take what is left when they arrive, and one that arrives too late
// finds nothing to do and nothing to touch but this object, which they share. The caller waits only
// for blocks that others have begun, so a loop may run on a thread of the pool that helps it.
#ifndef BLADE_SHARED_LOOP_H_
#define BLADE_SHARED_LOOP_H_

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <mutex>

#include "blade_abi.h"
#include "pause.h"

namespace blade {

class SharedLoop {
 public:
  // body(args, begin, end) is called on disjoint ranges of `block` units that cover [0, total).
  SharedLoop(BladeInt total, BladeInt block, BladeBody body, const void* args)
      : total_(total), block_(block), body_(body), args_(args), left_(total) {}
  SharedLoop(const SharedLoop&) = delete;
  SharedLoop& operator=(const SharedLoop&) = delete;

  BladeInt blocks() const { return (total_ - 1) / block_ + 1; }

  // Takes blocks until none is left.
  void Take() {
    for (;;) {
      const BladeInt begin = next_.fetch_add(block_, std::memory_order_relaxed);
      if (begin >= total_) return;
      const BladeInt end = std::min(begin + block_, total_);
      body_(args_, begin, end);
      if (left_.fetch_sub(end - begin, std::memory_order_acq_rel) == end - begin) {
        std::lock_guard<std::mutex> lock(mutex_);
        done_.notify_one();
      }
    }
  }

  // Returns when all units are done. For the caller, after Take.
  void Wait() {
    // The last blocks end soon; going to sleep and being woken takes longer.
    constexpr int kSpins = 2000;
    for (int i = 0; i < kSpins; ++i) {
      if (left_.load(std::memory_order_acquire) == 0) return;
      Pause();
    }
    std::unique_lock<std::mutex> lock(mutex_);
    done_.wait(lock, [this] { return left_.load(std::memory_order_acquire) == 0; });
  }

 private:
  const BladeInt total_, block_;
  const BladeBody body_;
  const void* const args_;
  std::atomic<BladeInt> next_{0};
  std::atomic<BladeInt> left_;  // units that aren't done
  std::mutex mutex_;
  std::condition_variable done_;
};

}  // namespace blade

#endif  // BLADE_SHARED_LOOP_H_
