// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "core/process.h"

#include <atomic>
#include <new>
#include <sys/mman.h>
#include <unistd.h>

namespace mlbridge {

/// The kernel clears it in a child process.
static std::atomic<uint64_t> &mark() {
  static std::atomic<uint64_t> none{1};
  static std::atomic<uint64_t> *const mark = [] {
    const size_t size = static_cast<size_t>(::sysconf(_SC_PAGESIZE));
    void *page = ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (page == MAP_FAILED || ::madvise(page, size, MADV_WIPEONFORK) != 0)
      return &none; // fork goes unnoticed
    return new (page) std::atomic<uint64_t>(0);
  }();
  return *mark;
}

uint64_t processNumber() {
  static std::atomic<uint64_t> last{0}; // inherited, unlike the mark
  uint64_t number = mark().load(std::memory_order_relaxed);
  if (number != 0)
    return number;
  const uint64_t fresh = ++last;
  return mark().compare_exchange_strong(number, fresh, std::memory_order_relaxed) ? fresh : number;
}

} // namespace mlbridge
