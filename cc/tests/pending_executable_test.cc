// Executables that come while others ask for them.
#include "pending_executable.h"

#include <atomic>
#include <string>
#include <thread>
#include <vector>

#include "tests/testing.h"

namespace blade {
namespace {

using testing::Program;

TEST(A_key_stands_for_one_pending_executable) {
  CHECK_EQ(PendingExecutable::For("a"), PendingExecutable::For("a"));
  CHECK(PendingExecutable::For("a") != PendingExecutable::For("b"));
}

TEST(Threads_see_all_of_an_executable_that_comes) {
  PendingExecutable* pending = PendingExecutable::For("comes");
  CHECK(!pending->done());
  std::vector<std::thread> threads;
  std::atomic<int> waiting{0};
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      ++waiting;
      while (!pending->done()) std::this_thread::yield();
      CHECK(pending->executable() != nullptr);
      CHECK_EQ(pending->executable()->n_inputs(), 2);
    });
  }
  while (waiting < 4) std::this_thread::yield();
  pending->Finish(Program("add"));
  for (std::thread& thread : threads) thread.join();
}

TEST(The_first_result_of_a_pending_executable_counts) {
  PendingExecutable* failed = PendingExecutable::For("fails");
  failed->Fail("no compiler");
  failed->Finish(Program("add"));
  CHECK(failed->done());
  CHECK(failed->executable() == nullptr);
  CHECK_EQ(failed->error(), "no compiler");

  PendingExecutable* damaged = PendingExecutable::For("damaged");
  damaged->Finish("TFBLADE1");
  CHECK(damaged->done());
  CHECK(damaged->executable() == nullptr);
  CHECK_SAYS(damaged->error(), "truncated");
}

}  // namespace
}  // namespace blade
