#include "huge_pages.h"

#include <sys/mman.h>

#include <cstdint>
#include <fstream>
#include <string>

#ifndef MADV_COLLAPSE
#define MADV_COLLAPSE 25  // from Linux 6.1 on
#endif

namespace blade {

namespace {

constexpr char kSettings[] = "/sys/kernel/mm/transparent_hugepage/";

size_t ReadHugePageSize() {
  std::string enabled;
  std::getline(std::ifstream(std::string(kSettings) + "enabled"), enabled);
  size_t size = 0;
  std::ifstream(std::string(kSettings) + "hpage_pmd_size") >> size;
  return enabled.empty() || enabled.find("[never]") != std::string::npos ? 0 : size;
}

}  // namespace

size_t HugePageSize() {
  static const size_t size = ReadHugePageSize();
  return size;
}

size_t MoveToHugePages(const void* data, size_t bytes) {
  const size_t page = HugePageSize();
  if (page == 0 || bytes < page) return 0;
  const auto begin = reinterpret_cast<uintptr_t>(data);
  size_t moved = 0;
  // Page by page: where one can't be moved (its ends may lie in memory of another kind), others
  // can.
  for (uintptr_t at = begin / page * page; at < begin + bytes; at += page) {
    void* const address = reinterpret_cast<void*>(at);
    // Also tells the kernel to keep it so.
    madvise(address, page, MADV_HUGEPAGE);
    if (madvise(address, page, MADV_COLLAPSE) == 0) moved += page;
  }
  return moved < bytes ? moved : bytes;
}

}  // namespace blade
