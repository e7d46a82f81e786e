#include "crew.h"

#include <functional>
#include <thread>
#include <vector>

#include "tests/testing.h"
#include "tests/visits.h"

namespace blade {
namespace {

using testing::Visits;

// Has a new thread call what is scheduled; joins all of them at the end.
struct Threads {
  ~Threads() {
    for (std::thread& thread : threads) thread.join();
  }
  auto Scheduler() {
    return [this](auto help) { threads.emplace_back(help); };
  }
  std::vector<std::thread> threads;
};

TEST(A_crew_visits_each_unit_of_each_loop_once) {
  for (const BladeInt total : {1, 2, 7, 1000}) {
    for (const BladeInt block : {1, 3, 2000}) {
      Threads threads;
      const auto crew = std::make_shared<Crew>();
      for (int loop = 0; loop < 20; ++loop) {
        Visits visits(total);
        Crew::Run(crew, total, block, 3, Visits::Body, &visits, threads.Scheduler());
        CHECK(visits.AllOnce());
      }
      crew->Dismiss();
    }
  }
}

TEST(A_crew_that_is_called_ahead_runs_the_loops_that_come) {
  for (int repeat = 0; repeat < 20; ++repeat) {
    Threads threads;
    const auto crew = std::make_shared<Crew>();
    Crew::Call(crew, 3, threads.Scheduler());
    CHECK_EQ(threads.threads.size(), 3u);
    Visits visits(300);
    Crew::Run(crew, 300, 7, 3, Visits::Body, &visits, threads.Scheduler());
    CHECK(visits.AllOnce());
    crew->Dismiss();
  }
}

TEST(A_member_that_comes_late_finds_nothing_to_do) {
  std::vector<std::function<void()>> late;
  const auto later = [&](auto help) { late.push_back(help); };
  const auto crew = std::make_shared<Crew>();
  {
    Visits visits(100);
    Crew::Run(crew, 100, 10, 3, Visits::Body, &visits, later);
    CHECK(visits.AllOnce());
  }
  CHECK_EQ(late.size(), 3u);
  late[0]();  // what it would have visited is gone
  crew->Dismiss();
  late[1]();
  late[2]();
}

TEST(Members_on_their_way_are_not_called_again) {
  int called = 0;
  const auto crew = std::make_shared<Crew>();
  const auto count = [&](auto) { ++called; };
  Visits visits(20);
  // Two blocks: one helper has something to do.
  CHECK_EQ(Crew::Run(crew, 20, 10, 7, Visits::Body, &visits, count), 1);
  CHECK_EQ(called, 1);
  Crew::Run(crew, 20, 10, 7, Visits::Body, &visits, count);
  CHECK_EQ(called, 1);
  Crew::Call(crew, 3, count);
  CHECK_EQ(called, 3);
}

TEST(A_member_without_work_goes_and_is_called_again) {
  const auto crew = std::make_shared<Crew>();
  {
    Threads threads;
    Crew::Call(crew, 2, threads.Scheduler());
  }  // they have gone without being dismissed
  int called = 0;
  Crew::Call(crew, 2, [&](auto) { ++called; });
  CHECK_EQ(called, 2);
}

TEST(Calls_with_crews_may_share_their_threads) {
  std::vector<std::thread> callers;
  for (int t = 0; t < 4; ++t) {
    callers.emplace_back([] {
      for (int i = 0; i < 50; ++i) {
        Threads threads;
        const auto crew = std::make_shared<Crew>();
        for (int loop = 0; loop < 3; ++loop) {
          Visits visits(300);
          Crew::Run(crew, 300, 7, 2, Visits::Body, &visits, threads.Scheduler());
          CHECK(visits.AllOnce());
        }
        crew->Dismiss();
      }
    });
  }
  for (std::thread& caller : callers) caller.join();
}

}  // namespace
}  // namespace blade
