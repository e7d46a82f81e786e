#include "thread_pool.h"

#include <thread>
#include <vector>

#include "tests/testing.h"
#include "tests/visits.h"

namespace blade {
namespace {

using testing::Visits;

void CheckVisitsAll(ThreadPool& pool, BladeInt total, BladeInt block) {
  Visits visits(total);
  pool.ParallelFor(total, block, Visits::Body, &visits);
  CHECK(visits.AllOnce());
}

TEST(A_loop_visits_each_unit_once) {
  for (const int threads : {1, 2, 5}) {
    ThreadPool pool(threads);
    CHECK_EQ(pool.threads(), threads);
    for (const BladeInt total : {0, 1, 2, 7, 1000}) {
      for (const BladeInt block : {1, 3, 2000}) CheckVisitsAll(pool, total, block);
    }
  }
}

TEST(Loops_of_several_callers_share_a_pool) {
  ThreadPool pool(3);
  std::vector<std::thread> callers;
  for (int t = 0; t < 4; ++t) {
    callers.emplace_back([&pool] {
      for (int i = 0; i < 100; ++i) CheckVisitsAll(pool, 50, 4);
    });
  }
  for (std::thread& caller : callers) caller.join();
}

struct Nested {
  ThreadPool* pool;
  static void Body(const void* args, BladeInt begin, BladeInt end) {
    for (BladeInt i = begin; i < end; ++i) {
      CheckVisitsAll(*static_cast<const Nested*>(args)->pool, 20, 1);
    }
  }
};

TEST(A_loop_inside_a_loop_runs_on_its_thread) {
  ThreadPool pool(3);
  const Nested nested{&pool};
  pool.ParallelFor(10, 1, Nested::Body, &nested);
}

TEST(Small_work_stays_whole_and_large_work_is_balanced) {
  CHECK_EQ(BlockSize(1000, 1, 8), 1000);      // a thousand cycles
  CHECK_EQ(BlockSize(1000, 1e6, 1), 1000);    // one thread
  CHECK_EQ(BlockSize(1, 1e9, 8), 1);          // can't be cut
  CHECK_EQ(BlockSize(64, 1e6, 8), 2);         // four blocks a thread
  CHECK(BlockSize(1 << 20, 1, 64) >= 20000);  // no block too small to pay
  CHECK(BlockSize(1000, 0, 8) == 1000);       // cost unknown: inline
  CHECK(BlockSize(BladeInt{1} << 40, 100, 2) > 0);
}

}  // namespace
}  // namespace blade
