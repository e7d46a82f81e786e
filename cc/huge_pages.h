// Moving what is in memory already to huge pages.
//
// A lookup reads rows anywhere in its tables. With pages of 4 KiB nearly every row costs a walk of
// the page tables as well, and on a virtual machine that is two nested walks: 20 to 30 % of a
// request of 100 to 512 rows.
#ifndef BLADE_HUGE_PAGES_H_
#define BLADE_HUGE_PAGES_H_

#include <cstddef>

namespace blade {

// The size of a huge page; 0 where the kernel has none, or was told never to use them.
size_t HugePageSize();

// Asks the kernel to move [data, data + bytes) to huge pages, and returns when it has: about half a
// millisecond for each page. What the memory holds stays the same, others may read and write it
// meanwhile. Pages at both ends are moved as well, which others may own. Does nothing for memory
// that is smaller than a huge page.
//
// Returns the bytes that are in huge pages now; less than asked for where memory is short, the
// kernel is older than Linux 6.1, or there are no huge pages.
size_t MoveToHugePages(const void* data, size_t bytes);

}  // namespace blade

#endif  // BLADE_HUGE_PAGES_H_
