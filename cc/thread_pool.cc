#include "thread_pool.h"

#include <algorithm>

namespace blade {

struct ThreadPool::Loop {
  BladeInt total, block;
  BladeBody body;
  const void* args;
  std::atomic<BladeInt> next{0};

  // Takes blocks until none is left.
  void Run() {
    for (;;) {
      const BladeInt begin = next.fetch_add(block, std::memory_order_relaxed);
      if (begin >= total) return;
      body(args, begin, std::min(begin + block, total));
    }
  }
};

ThreadPool::ThreadPool(int threads) {
  for (int i = 1; i < threads; ++i) workers_.emplace_back([this] { Work(); });
}

ThreadPool::~ThreadPool() {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    stop_ = true;
  }
  wake_.notify_all();
  for (std::thread& worker : workers_) worker.join();
}

void ThreadPool::Work() {
  std::unique_lock<std::mutex> lock(mutex_);
  for (;;) {
    wake_.wait(lock, [this] { return stop_ || loop_ != nullptr; });
    if (stop_) return;
    Loop* loop = loop_;
    ++helpers_;
    lock.unlock();
    loop->Run();
    lock.lock();
    // The loop has no block left: nobody else should join it.
    if (loop_ == loop) loop_ = nullptr;
    if (--helpers_ == 0) done_.notify_one();
  }
}

void ThreadPool::ParallelFor(BladeInt total, BladeInt block, BladeBody body, const void* args) {
  if (total <= 0) return;
  if (total <= block || workers_.empty() || busy_.exchange(true, std::memory_order_acquire)) {
    body(args, 0, total);
    return;
  }
  Loop loop;
  loop.total = total, loop.block = block, loop.body = body, loop.args = args;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    loop_ = &loop;
  }
  wake_.notify_all();
  loop.Run();
  std::unique_lock<std::mutex> lock(mutex_);
  loop_ = nullptr;
  done_.wait(lock, [this] { return helpers_ == 0; });
  busy_.store(false, std::memory_order_release);
}

BladeInt BlockSize(BladeInt total, double cost_cycles, int threads) {
  // What waking a thread costs all in all, and what it should do for that: the numbers of Eigen's
  // TensorCostModel.
  constexpr double kStartup = 100e3, kThread = 100e3, kBlock = 20e3;
  constexpr int kBlocksPerThread = 4;
  const double cost = std::max(cost_cycles, 1e-3);
  const double worth = (static_cast<double>(total) * cost - kStartup) / kThread + 0.9;
  if (worth < threads) threads = static_cast<int>(std::max(worth, 1.0));
  if (total <= 1 || threads <= 1) return std::max<BladeInt>(total, 1);
  const BladeInt smallest = static_cast<BladeInt>(std::min(kBlock / cost, 1e15)) + 1;
  const BladeInt balanced = (total - 1) / (BladeInt{threads} * kBlocksPerThread) + 1;
  return std::min(total, std::max(smallest, balanced));
}

}  // namespace blade
