// The threads that help one call with its parallel loops.
//
// A thread that is asked for when a loop begins comes 10 to 50 µs later, and loops of a request
// often take no longer. So a crew may be called before the first loop is there, while the call
// takes its inputs, and stays for the loops that follow: who has come looks out for the next loop
// for a moment before it goes. Nobody waits for a member of the crew but for blocks that it has
// begun.
#ifndef BLADE_CREW_H_
#define BLADE_CREW_H_

#include <algorithm>
#include <atomic>
#include <chrono>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>

#include "blade_abi.h"
#include "shared_loop.h"

namespace blade {

// Call, Run and Dismiss are for one thread, the call's.
class Crew {
 public:
  Crew() = default;
  Crew(const Crew&) = delete;
  Crew& operator=(const Crew&) = delete;

  // Has up to `helpers` threads come, those counted that are here or on their way. schedule(f) has
  // some thread call f, now or later, even after the crew was dismissed.
  template <class Schedule>
  static void Call(const std::shared_ptr<Crew>& crew, int helpers, const Schedule& schedule) {
    const int missing = helpers - crew->members_.load(std::memory_order_relaxed);
    for (int i = 0; i < missing; ++i) {
      crew->members_.fetch_add(1, std::memory_order_relaxed);
      schedule([crew] { crew->Help(); });
    }
  }

  // Runs a loop with up to `helpers` others: body(args, begin, end) is called on disjoint ranges of
  // `block` units that cover [0, total). Returns how many others it had use for.
  template <class Schedule>
  static int Run(const std::shared_ptr<Crew>& crew, BladeInt total, BladeInt block, int helpers,
                 BladeBody body, const void* args, const Schedule& schedule) {
    const auto loop = std::make_shared<SharedLoop>(total, block, body, args);
    const int useful = static_cast<int>(std::min<BladeInt>(helpers, loop->blocks() - 1));
    crew->Show(loop);
    Call(crew, useful, schedule);
    loop->Take();
    loop->Wait();
    return useful;
  }

  // No loop follows.
  void Dismiss() { dismissed_.store(true, std::memory_order_release); }

 private:
  using Clock = std::chrono::steady_clock;

  // How long a member looks out for a loop: more than most calls do between two. Longer is no gain
  // and slows the caller down, where their processors are the two halves of one core.
  static constexpr std::chrono::microseconds kPatience{20};

  void Show(std::shared_ptr<SharedLoop> loop) {
    std::lock_guard<std::mutex> lock(mutex_);
    loop_ = std::move(loop);
    shown_.fetch_add(1, std::memory_order_release);
  }

  void Help() {
    constexpr int kLooks = 16;  // between two looks at the clock
    int seen = 0;
    Clock::time_point until = Clock::now() + kPatience;
    for (int i = 1; !dismissed_.load(std::memory_order_acquire); ++i) {
      if (shown_.load(std::memory_order_acquire) != seen) {
        std::shared_ptr<SharedLoop> loop;
        {
          std::lock_guard<std::mutex> lock(mutex_);
          loop = loop_;
          seen = shown_.load(std::memory_order_relaxed);
        }
        loop->Take();
        until = Clock::now() + kPatience;
      } else if (i % kLooks == 0 && Clock::now() > until) {
        break;
      }
      // Any thread with work to do goes first: TensorFlow may have other operations to run.
      std::this_thread::yield();
    }
    members_.fetch_sub(1, std::memory_order_relaxed);
  }

  std::atomic<int> members_{0};  // here or on their way
  std::atomic<bool> dismissed_{false};
  std::atomic<int> shown_{0};  // how many loops so far
  std::mutex mutex_;
  std::shared_ptr<SharedLoop> loop_;  // the last one
};

}  // namespace blade

#endif  // BLADE_CREW_H_
