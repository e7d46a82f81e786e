// Threads that ask, one that answers, and the end.
#include "jit/graph_queue.h"

#include <atomic>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tests/testing.h"

namespace blade {
namespace {

int Holds() { return 1; }
int HoldsNot() { return 0; }

GraphRequest Request(std::string graph) { return {std::move(graph), ""}; }

// Answers everything with the graph and an exclamation mark.
void Serve(GraphQueue* queue) {
  uint64_t ticket;
  while (const GraphRequest* request = queue->Next(&ticket)) {
    if (request->graph.size() % 2 == 0) queue->TakeTime(ticket);
    queue->Answer(ticket, request->graph + "!");
  }
}

TEST(Everybody_who_asks_gets_the_answer_to_their_own_question) {
  GraphQueue queue;
  std::thread server([&] { Serve(&queue); });
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 50; ++i) {
        const std::string graph(1 + t + i % 3, static_cast<char>('a' + t));
        std::string answer;
        CHECK(queue.Ask(Request(graph), &answer));
        CHECK_EQ(answer, graph + "!");
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  queue.Close();
  server.join();
}

TEST(Who_asks_a_closed_queue_or_waits_when_it_closes_gets_no_answer) {
  GraphQueue queue;
  std::atomic<bool> taken{false};
  std::thread server([&] {  // takes two requests and answers neither
    uint64_t ticket;
    queue.Next(&ticket);
    const GraphRequest* request = queue.Next(&ticket);
    CHECK(request != nullptr);
    queue.TakeTime(ticket);
    taken = true;
    CHECK(queue.Next(&ticket) == nullptr);
    queue.Answer(ticket, "too late");
  });
  std::vector<std::thread> threads;
  for (int t = 0; t < 2; ++t) {
    threads.emplace_back([&] {
      std::string answer;
      CHECK(!queue.Ask(Request("graph"), &answer));
    });
  }
  while (!taken) std::this_thread::yield();
  queue.Close();
  for (std::thread& thread : threads) thread.join();
  server.join();
  std::string answer;
  CHECK(!queue.Ask(Request("graph"), &answer));
}

TEST(The_answering_thread_and_those_that_hold_the_lock_must_not_ask) {
  GraphQueue queue;
  CHECK(queue.MustNotAsk());  // nobody has said how to find out
  queue.SetHoldsLock(&Holds);
  CHECK(queue.MustNotAsk());
  queue.SetHoldsLock(&HoldsNot);
  CHECK(!queue.MustNotAsk());
  queue.Close();
  std::thread([&] {
    uint64_t ticket;
    CHECK(queue.Next(&ticket) == nullptr);
    CHECK(queue.MustNotAsk());
  }).join();
}

}  // namespace
}  // namespace blade
