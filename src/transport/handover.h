// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// When two processes answer each other at once, it is cheaper to yield the processor and poll than
// to sleep and be woken.
#ifndef MLBRIDGE_TRANSPORT_HANDOVER_H
#define MLBRIDGE_TRANSPORT_HANDOVER_H

#include <mlbridge/deadline.h>

#include <algorithm>

#include <sched.h>

namespace mlbridge {

/// Backs off from something that fails: each failure doubles the number of waits that skip it, and
/// as many successes halve it again.
class Attempt {
public:
  static constexpr int MostFailures = 14;
  bool isDue() {
    waits_ = std::max(waits_ - 1, 0);
    return waits_ == 0;
  }
  void worked() {
    if (failures_ == 0 || ++successes_ < 1 << failures_)
      return;
    --failures_;
    successes_ = 0;
  }
  /// `weight`: counts as at least so many failures in a row.
  void failed(int weight = 1) {
    failures_ = std::min(std::max(failures_ + 1, weight), MostFailures);
    waits_ = 1 << failures_;
    successes_ = 0;
  }

private:
  int waits_ = 0, failures_ = 0, successes_ = 0;
};

/// What one waiting side of a conversation does before it sleeps in the kernel. Not thread-safe.
class Handover {
public:
  using Clock = Deadline::Clock;
  static constexpr Duration Spin = std::chrono::microseconds(10);
  static constexpr Duration Patience = std::chrono::microseconds(50);
  /// A yield that took longer let other processes run, and will again; so one is enough to back
  /// off.
  static constexpr Duration LongYield = std::chrono::microseconds(150);
  static constexpr int WeightOfLongYield = 10;
  static constexpr int GlancesPerClock = 16;

  struct Processor {
    Clock::time_point now() { return Clock::now(); }
    void yield() { ::sched_yield(); }
    void pause() {
#if defined(__x86_64__)
      __builtin_ia32_pause();
#elif defined(__aarch64__)
      __asm__ volatile("yield");
#endif
    }
  };

  /// Calls `glance`, which says whether there was input, until there was or for `Spin`. Call it
  /// before yieldUntil where polling takes no system call.
  template <typename Glance, typename Machine = Processor>
  bool spinUntil(Glance glance, Machine machine = Machine()) {
    if (!spin_.isDue())
      return false;
    const Clock::time_point end = machine.now() + Spin;
    do {
      for (int i = 0; i < GlancesPerClock; ++i) {
        if (glance()) {
          spin_.worked();
          return true;
        }
        machine.pause();
      }
    } while (machine.now() < end);
    spin_.failed();
    return false;
  }

  /// Yields and calls `look`, which says whether there was input, until there was or for
  /// `Patience`.
  template <typename Look, typename Machine = Processor>
  bool yieldUntil(Look look, Machine machine = Machine()) {
    if (!yield_.isDue())
      return false;
    const Clock::time_point end = machine.now() + Patience;
    while (true) {
      const Clock::time_point before = machine.now();
      machine.yield();
      const Clock::time_point after = machine.now();
      const bool found = look();
      if (after - before > LongYield)
        yield_.failed(WeightOfLongYield);
      else if (found)
        yield_.worked();
      else if (after >= end)
        yield_.failed();
      else
        continue;
      return found;
    }
  }

private:
  Attempt spin_, yield_;
};

} // namespace mlbridge

#endif
