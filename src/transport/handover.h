// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// When two processes answer each other at once, offering the processor for a moment and looking for
// input is cheaper than going to sleep and being woken.
#ifndef MLBRIDGE_TRANSPORT_HANDOVER_H
#define MLBRIDGE_TRANSPORT_HANDOVER_H

#include <mlbridge/deadline.h>

#include <algorithm>

#include <sched.h>

namespace mlbridge {

/// Decides, for one waiting side of a conversation, whether to yield the processor for a moment
/// before sleeping in the kernel. On one core, sleeping and waking are about a third of a short
/// round trip; on two, waking an idle core may cost many times the round trip. But on a busy
/// machine a yield lets others run for milliseconds, so it is tried only after many quick turns,
/// and more of them when it did not pay. Not thread-safe.
class Handover {
public:
  using Clock = Deadline::Clock;
  /// Turns no longer than this, from answer to answer, are quick.
  static constexpr Duration Quick = std::chrono::microseconds(150);
  /// Quick turns before the first try; before another one after yields in vain; the most, after
  /// yields that took long.
  static constexpr int FirstTurns = 32, NextTurns = 64, MostTurns = 1 << 14;
  /// How many more yields in vain than useful ones are borne: at the start, and at most.
  static constexpr int FirstCredit = 2, MostCredit = 32;

  /// How long a side yields before it sleeps: twice as long as a turn has taken of late, within
  /// these. And how often at least: the scheduler, being fair, may give the processor straight
  /// back.
  static constexpr Duration LeastPatience = std::chrono::microseconds(30);
  static constexpr Duration MostPatience = std::chrono::microseconds(200);
  static constexpr int Yields = 3;

  /// Yields and calls `look`, which says whether there was input, until there was or patience ends.
  template <typename Look> bool yieldUntil(Look look) {
    const Clock::time_point end =
        Clock::now() + std::clamp(2 * usual_, LeastPatience, MostPatience);
    int yields = 0;
    do {
      ::sched_yield();
      if (look())
        return true;
    } while (++yields < Yields || Clock::now() < end);
    outcome_ = Outcome::YieldedInVain;
    return false;
  }

  /// Before a wait: whether to call sched_yield and look for input, so many times, before sleeping.
  bool yields() {
    outcome_ = credit_ > 0 ? Outcome::Yielded : Outcome::Slept;
    return outcome_ == Outcome::Yielded;
  }
  /// The wait is over.
  void waited(Clock::time_point now) {
    const bool quick = now - last_ <= Quick;
    if (quick)
      usual_ += (now - last_ - usual_) / 8;
    last_ = now;
    const Outcome outcome = outcome_;
    outcome_ = Outcome::Slept;
    if (outcome == Outcome::Slept) {
      quickTurns_ = quick ? quickTurns_ + 1 : 0;
      if (quickTurns_ >= neededTurns_)
        credit_ = FirstCredit;
      return;
    }
    if (!quick) {
      credit_ = 0;
      neededTurns_ = std::min(neededTurns_ * 4, MostTurns);
    } else if (outcome == Outcome::Yielded) {
      credit_ = std::min(credit_ + 1, MostCredit);
      neededTurns_ = std::max(neededTurns_ - 1 - neededTurns_ / 64, FirstTurns);
    } else if (--credit_ == 0) {
      neededTurns_ = std::max(neededTurns_, NextTurns);
    }
    if (credit_ == 0)
      quickTurns_ = 0;
  }

private:
  enum class Outcome : uint8_t { Slept, Yielded, YieldedInVain };
  Outcome outcome_ = Outcome::Slept;
  Clock::time_point last_{};
  Duration usual_{0}; ///< of quick turns
  int quickTurns_ = 0;
  int neededTurns_ = FirstTurns;
  int credit_ = 0;
};

} // namespace mlbridge

#endif
