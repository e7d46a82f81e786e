// Graphs on their way to the compiler, which is Python's, and back.
//
// The threads that make graphs ask and wait; one thread of Python's takes the graphs, one by one,
// and answers. Only that thread ever needs Python's global lock. A thread that asks never takes it,
// and doesn't ask while it holds it, so that neither can wait for the other.
#ifndef TF_BLADE_OPS_JIT_GRAPH_QUEUE_H_
#define TF_BLADE_OPS_JIT_GRAPH_QUEUE_H_

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <string>

namespace blade {

// A graph, and what must be known of it.
struct GraphRequest {
  std::string graph;  // a serialized GraphDef
  std::string facts;  // lines of a word, a tab and a name; see jit_optimizer.cc
};

// Thread-safe.
class GraphQueue {
 public:
  static GraphQueue& Get();

  // Whether graphs are to be compiled. Off until Python says so.
  bool accepting() const { return accepting_.load(std::memory_order_acquire); }
  void Accept(bool accepting) { accepting_.store(accepting, std::memory_order_release); }

  // How to find out whether the calling thread holds Python's global lock.
  void SetHoldsLock(int (*holds_lock)()) { holds_lock_.store(holds_lock); }

  // Whether this thread must not ask: it works for the compiler, or holds Python's global lock.
  bool MustNotAsk() const;

  // Waits for the answer. False if there is none: the queue was closed, or nobody answered in time.
  bool Ask(GraphRequest request, std::string* answer);

  // Waits for a request; null once the queue is closed. The request lives until it is answered.
  // The calling thread is the compiler's from now on.
  const GraphRequest* Next(uint64_t* ticket);

  // The answer will take as long as it takes.
  void TakeTime(uint64_t ticket);

  // An empty answer: the graph stays as it is.
  void Answer(uint64_t ticket, std::string answer);

  // Everybody who waits goes on, and nobody waits any more.
  void Close();

 private:
  struct Item {
    GraphRequest request;
    std::string answer;
    bool answered = false;
    bool takes_time = false;
  };

  std::shared_ptr<Item> Find(uint64_t ticket);

  // Looking at a graph takes seconds at most; this is for a Python that does not come back.
  static constexpr std::chrono::seconds kPatience{300};

  std::atomic<bool> accepting_{false};
  std::atomic<int (*)()> holds_lock_{nullptr};
  std::mutex mutex_;
  std::condition_variable changed_;
  bool closed_ = false;
  uint64_t last_ticket_ = 0;
  std::deque<uint64_t> waiting_;
  std::map<uint64_t, std::shared_ptr<Item>> items_;  // not answered yet, by ticket
};

}  // namespace blade

#endif  // TF_BLADE_OPS_JIT_GRAPH_QUEUE_H_
