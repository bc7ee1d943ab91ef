// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A point in time after which a blocking step gives up.
#ifndef MLBRIDGE_DEADLINE_H
#define MLBRIDGE_DEADLINE_H

#include <algorithm>
#include <chrono>
#include <cstdint>

namespace mlbridge {

/// The type of all times and time limits in C++; seconds and milliseconds convert to it.
using Duration = std::chrono::nanoseconds;

/// Monotonic; not affected by changes of the wall clock. Copyable; made once and handed down, so
/// that the parts of one call share one limit.
class Deadline {
public:
  using Clock = std::chrono::steady_clock; ///< monotonic

  /// Never passes.
  constexpr Deadline() = default;
  static Deadline never() { return {}; }
  /// Passes at this time.
  static Deadline at(Clock::time_point when) {
    Deadline d;
    d.when_ = when;
    return d;
  }
  /// A duration too long to be added to now() means never; a negative one has passed already. Pass
  /// `now` if you have just read the clock.
  static Deadline after(Duration duration, Clock::time_point now = Clock::now()) {
    if (duration >= Clock::time_point::max() - now)
      return never();
    return at(now + std::max(duration, Duration::zero()));
  }

  /// True if there is no limit.
  bool isNever() const { return when_ == Clock::time_point::max(); }
  /// True if it has passed.
  bool hasPassed() const { return !isNever() && Clock::now() >= when_; }
  /// Zero once passed; Duration::max() if never.
  Duration left() const {
    return isNever() ? Duration::max() : std::max(Duration(when_ - Clock::now()), Duration::zero());
  }
  /// For poll(2): milliseconds rounded up, -1 if never.
  int pollTimeout() const {
    if (isNever())
      return -1;
    const int64_t ns = left().count(), ms = ns / 1'000'000 + (ns % 1'000'000 != 0);
    return static_cast<int>(std::min<int64_t>(ms, 0x7fffffff));
  }
  /// The time at which it passes; Clock::time_point::max() if never.
  Clock::time_point when() const { return when_; }
  /// The one that passes first.
  friend Deadline earlier(Deadline a, Deadline b) { return a.when_ < b.when_ ? a : b; }

private:
  Clock::time_point when_ = Clock::time_point::max();
};

} // namespace mlbridge

#endif
