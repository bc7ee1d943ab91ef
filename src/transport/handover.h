// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// When two processes answer each other at once, offering the processor for a moment and looking for
// input is cheaper than going to sleep and being woken. Measured with a sweep of 100 requests
// (docs/results.md), in milliseconds, of sides that yield for a fixed time and back off while that
// is in vain, and of sides that keep the accounts below:
//
//            fixed   accounts
//     shm:    1.39       0.54
//     unix:   5.48       2.00
#ifndef MLBRIDGE_TRANSPORT_HANDOVER_H
#define MLBRIDGE_TRANSPORT_HANDOVER_H

#include <mlbridge/deadline.h>

#include <algorithm>

#include <sched.h>

namespace mlbridge {

/// Decides, for one waiting side of a conversation, whether to spin and to yield the processor for
/// a moment before sleeping in the kernel. On one core, sleeping and waking are about a third of a
/// short round trip; on two, waking an idle core may cost many times the round trip. But on a busy
/// machine a yield lets others run for milliseconds. So accounts are kept: turns that began with a
/// yield earn what the first of them were shorter than those that slept before, yields in vain and
/// yields that let others run cost their time. (Later turns are not compared: their messages may
/// have another size.) While it pays, every wait begins with yields; when the account is empty,
/// none does until so many quick turns have passed that they would have earned the loss, and more
/// of them each time. Not thread-safe.
class Handover {
public:
  using Clock = Deadline::Clock;
  /// Turns no longer than this, from answer to answer, are quick: those that yields can make so
  /// short that a side need not sleep, the time that it takes to wake both sides included.
  static constexpr Duration Quick = std::chrono::microseconds(500);
  /// A yield that takes longer than this let others run.
  static constexpr Duration LongYield = std::chrono::microseconds(150);
  /// Quick turns before the first try, and the fewest and the most before others.
  static constexpr int FirstTurns = 32, LeastTurns = 64, MostTurns = 1 << 14;
  /// So many turns that begin with a yield are compared with those that slept before.
  static constexpr int ComparedTurns = 16;
  /// The loss that a try may make at first, and the most that earnings are good for.
  static constexpr Duration Grant = std::chrono::microseconds(100);
  static constexpr Duration MostEarned = std::chrono::milliseconds(1);
  /// After so many failures in a row the wait grows no more.
  static constexpr int MostFailures = 6;

  /// How long a side yields before it sleeps: twice as long as the longest turn of late, within
  /// these. And how often at least: the scheduler, being fair, may give the processor straight
  /// back.
  static constexpr Duration LeastPatience = std::chrono::microseconds(30);
  static constexpr Duration MostPatience = std::chrono::microseconds(200);
  static constexpr int Yields = 3;
  /// How long a side spins before it yields, within these.
  static constexpr Duration LeastSpin = std::chrono::microseconds(5);
  static constexpr Duration MostSpin = std::chrono::microseconds(20);
  static constexpr int GlancesPerClock = 16;
  /// After so many spins in vain in a row 2^n waits do without, n being their number, up to the
  /// other.
  static constexpr int SpinsInVain = 3, MostSpinsInVain = 10;

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

  /// Before a wait: whether to call yieldUntil before sleeping.
  bool yields() {
    outcome_ = yielding_ ? Outcome::Yielded : Outcome::Slept;
    return yielding_;
  }

  /// To be called before yieldUntil where a look costs no system call: calls `glance`, which says
  /// whether there was input, until there was or for about two quick turns. On two cores that finds
  /// an answer some tenths of a microsecond earlier than the scheduler's call does; where it does
  /// not, as on one core, it is soon left out, and tried again ever more seldom.
  template <typename Glance, typename Machine = Processor>
  bool spinUntil(Glance glance, Machine machine = Machine()) {
    if (waitsWithoutSpin_ > 0) {
      --waitsWithoutSpin_;
      return false;
    }
    read_ = machine.now();
    const Clock::time_point end = read_ + std::clamp(2 * longest_, LeastSpin, MostSpin);
    do {
      for (int i = 0; i < GlancesPerClock; ++i) {
        if (glance()) {
          spinsInVain_ = 0;
          return true;
        }
        machine.pause();
      }
      read_ = machine.now();
    } while (read_ < end);
    spinsInVain_ = std::min(spinsInVain_ + 1, MostSpinsInVain);
    if (spinsInVain_ >= SpinsInVain)
      waitsWithoutSpin_ = 1 << spinsInVain_;
    return false;
  }

  /// Yields and calls `look`, which says whether there was input, until there was or patience ends.
  template <typename Look, typename Machine = Processor>
  bool yieldUntil(Look look, Machine machine = Machine()) {
    const Clock::time_point start = machine.now();
    const Clock::time_point end = start + std::clamp(2 * longest_, LeastPatience, MostPatience);
    Clock::time_point before = start;
    for (int yields = 1;; ++yields) {
      machine.yield();
      const Clock::time_point after = read_ = machine.now();
      const bool othersRan = after - before > LongYield;
      if (othersRan)
        wasted_ = after - before;
      if (look())
        return true;
      if (othersRan || (yields >= Yields && after >= end)) {
        wasted_ = after - start;
        outcome_ = Outcome::YieldedInVain;
        return false;
      }
      before = after;
    }
  }

  /// When the wait ended, to a microsecond: reading the clock once more takes its time.
  Clock::time_point end() const { return outcome_ == Outcome::Yielded ? read_ : Clock::now(); }
  /// The wait is over.
  void waited(Clock::time_point now) {
    const Duration turn = now - last_;
    const bool quick = turn <= Quick;
    last_ = now;
    if (quick)
      longest_ = std::max<Duration>(turn, longest_ - longest_ / 32);
    if (outcome_ == Outcome::Slept) {
      quickTurns_ += quick;
      if (quick && ofSleeping_ == Duration::zero())
        ofSleeping_ = turn;
      else if (quick)
        ofSleeping_ += (withoutDelay(turn) - ofSleeping_) / 8;
      if (quickTurns_ >= neededTurns_) {
        yielding_ = true;
        comparedTurns_ = 0;
        account_ = Grant;
      }
      return;
    }
    if (outcome_ == Outcome::Yielded && quick) {
      if (comparedTurns_ < ComparedTurns)
        gain_ += (ofSleeping_ - withoutDelay(turn) - gain_) / ++comparedTurns_;
      account_ += gain_;
    }
    account_ -= wasted_;
    if (account_ >= MostEarned) {
      account_ = MostEarned;
      failures_ = 0;
    }
    if (account_ < Duration::zero())
      stop();
    wasted_ = Duration::zero();
    outcome_ = Outcome::Slept;
  }

private:
  enum class Outcome : uint8_t { Slept, Yielded, YieldedInVain };

  /// A turn that took much longer than others may have been delayed by something else, which is not
  /// to decide a comparison.
  Duration withoutDelay(Duration turn) const { return std::min(turn, 2 * ofSleeping_); }
  void stop() {
    const Duration gain = std::max<Duration>(gain_, std::chrono::microseconds(1));
    const int64_t turns = ((Grant - account_) / gain) << failures_;
    neededTurns_ = static_cast<int>(std::clamp<int64_t>(turns, LeastTurns, MostTurns));
    failures_ = std::min(failures_ + 1, MostFailures);
    yielding_ = false;
    quickTurns_ = 0;
  }

  Outcome outcome_ = Outcome::Slept;
  bool yielding_ = false;
  Clock::time_point last_{};
  Clock::time_point read_{}; ///< when the clock was read last in a wait
  Duration account_{0};
  Duration wasted_{0};     ///< by yields of this turn
  Duration longest_{0};    ///< of the quick turns of late
  Duration ofSleeping_{0}; ///< quick turns that slept, about as long as of late
  Duration gain_{0};       ///< of a turn that began with a yield, over one that slept
  int comparedTurns_ = 0;
  int quickTurns_ = 0;
  int spinsInVain_ = 0, waitsWithoutSpin_ = 0;
  int neededTurns_ = FirstTurns;
  int failures_ = 0;
};

} // namespace mlbridge

#endif
