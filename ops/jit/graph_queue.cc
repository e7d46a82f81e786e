#include "graph_queue.h"

#include <utility>

namespace blade {
namespace {

// Passes run graphs of their own; those are not to be compiled.
thread_local bool is_compiler_thread = false;

}  // namespace

GraphQueue& GraphQueue::Get() {
  static GraphQueue* queue = new GraphQueue;  // outlives every thread
  return *queue;
}

bool GraphQueue::MustNotAsk() const {
  int (*holds_lock)() = holds_lock_.load();
  return is_compiler_thread || holds_lock == nullptr || holds_lock() != 0;
}

bool GraphQueue::Ask(GraphRequest request, std::string* answer) {
  std::unique_lock<std::mutex> lock(mutex_);
  if (closed_) return false;
  const uint64_t ticket = ++last_ticket_;
  auto item = std::make_shared<Item>();
  item->request = std::move(request);
  items_[ticket] = item;
  waiting_.push_back(ticket);
  changed_.notify_all();
  const auto deadline = std::chrono::steady_clock::now() + kPatience;
  const auto over = [&] { return item->answered || closed_ || item->takes_time; };
  changed_.wait_until(lock, deadline, over);
  if (item->takes_time) changed_.wait(lock, [&] { return item->answered || closed_; });
  items_.erase(ticket);
  if (closed_ || !item->answered) return false;
  *answer = std::move(item->answer);
  return true;
}

const GraphRequest* GraphQueue::Next(uint64_t* ticket) {
  is_compiler_thread = true;
  std::unique_lock<std::mutex> lock(mutex_);
  // The request that was taken last stays alive while this thread works on it, even if whoever
  // asked has given up.
  thread_local std::shared_ptr<Item> current;
  current.reset();
  while (current == nullptr) {
    changed_.wait(lock, [&] { return closed_ || !waiting_.empty(); });
    if (closed_) return nullptr;
    *ticket = waiting_.front();
    waiting_.pop_front();
    if (auto found = items_.find(*ticket); found != items_.end()) current = found->second;
  }
  return &current->request;
}

std::shared_ptr<GraphQueue::Item> GraphQueue::Find(uint64_t ticket) {
  const auto found = items_.find(ticket);
  return found == items_.end() ? nullptr : found->second;
}

void GraphQueue::TakeTime(uint64_t ticket) {
  std::lock_guard<std::mutex> lock(mutex_);
  if (auto item = Find(ticket)) item->takes_time = true;
  changed_.notify_all();
}

void GraphQueue::Answer(uint64_t ticket, std::string answer) {
  std::lock_guard<std::mutex> lock(mutex_);
  if (auto item = Find(ticket)) {
    item->answer = std::move(answer);
    item->answered = true;
  }
  changed_.notify_all();
}

void GraphQueue::Close() {
  Accept(false);
  std::lock_guard<std::mutex> lock(mutex_);
  closed_ = true;
  changed_.notify_all();
}

}  // namespace blade
