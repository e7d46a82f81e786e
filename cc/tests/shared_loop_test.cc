#include "shared_loop.h"

#include <functional>
#include <thread>
#include <vector>

#include "tests/testing.h"
#include "tests/visits.h"

namespace blade {
namespace {

using testing::Visits;

TEST(A_shared_loop_visits_each_unit_once) {
  for (const BladeInt total : {1, 2, 7, 1000}) {
    for (const BladeInt block : {1, 3, 2000}) {
      Visits visits(total);
      std::vector<std::thread> helpers;
      SharedLoop::Run(total, block, 3, Visits::Body, &visits,
                      [&](auto help) { helpers.emplace_back(help); });
      CHECK(visits.AllOnce());
      for (std::thread& helper : helpers) helper.join();
      CHECK(visits.AllOnce());
    }
  }
}

TEST(A_helper_that_comes_late_finds_nothing_to_do) {
  std::vector<std::function<void()>> late;
  {
    Visits visits(100);
    SharedLoop::Run(100, 10, 3, Visits::Body, &visits, [&](auto help) { late.push_back(help); });
    CHECK(visits.AllOnce());
  }
  CHECK_EQ(late.size(), 3u);
  for (const auto& help : late) help();  // what it would have visited is gone
}

TEST(No_more_helpers_are_called_than_there_are_blocks) {
  Visits visits(20);
  int called = 0;
  SharedLoop::Run(20, 10, 7, Visits::Body, &visits, [&](auto) { ++called; });
  CHECK_EQ(called, 1);
}

TEST(Callers_may_help_each_other) {
  std::vector<std::thread> callers;
  for (int t = 0; t < 4; ++t) {
    callers.emplace_back([] {
      for (int i = 0; i < 50; ++i) {
        Visits visits(300);
        std::vector<std::thread> helpers;
        SharedLoop::Run(300, 7, 2, Visits::Body, &visits,
                        [&](auto help) { helpers.emplace_back(help); });
        CHECK(visits.AllOnce());
        for (std::thread& helper : helpers) helper.join();
      }
    });
  }
  for (std::thread& caller : callers) caller.join();
}

}  // namespace
}  // namespace blade
