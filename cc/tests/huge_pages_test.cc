#include "huge_pages.h"

#include <atomic>
#include <cstdint>
#include <thread>
#include <vector>

#include "tests/testing.h"

namespace blade {
namespace {

TEST(Memory_in_huge_pages_holds_what_it_held) {
  std::vector<uint32_t> memory(5 << 20);
  for (size_t i = 0; i < memory.size(); ++i) memory[i] = static_cast<uint32_t>(i * 2654435761u);
  // Aligned to no page, as tables are.
  const size_t bytes = (memory.size() - 3003) * sizeof(uint32_t);
  CHECK(MoveToHugePages(memory.data() + 1001, bytes) <= bytes);
  for (size_t i = 0; i < memory.size(); ++i) {
    CHECK_EQ(memory[i], static_cast<uint32_t>(i * 2654435761u));
  }
}

TEST(Memory_is_moved_while_it_is_read_and_written) {
  std::vector<uint32_t> memory(2 << 20, 1);
  std::atomic<bool> over{false};
  std::thread other([&] {
    do {
      for (size_t i = 0; i < memory.size(); i += 512) CHECK_EQ(memory[i], 1u);
      for (size_t i = 0; i < memory.size(); i += 512) memory[i] = 1;
    } while (!over.load());
  });
  for (int i = 0; i < 3; ++i) MoveToHugePages(memory.data(), memory.size() * sizeof(uint32_t));
  over.store(true);
  other.join();
}

TEST(Small_memory_is_not_moved) {
  const std::vector<char> memory(4096);
  CHECK_EQ(MoveToHugePages(memory.data(), memory.size()), 0u);
  CHECK_EQ(MoveToHugePages(nullptr, 0), 0u);
}

}  // namespace
}  // namespace blade
