// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Asking again, with pauses, within a deadline.
#ifndef MLBRIDGE_CONVERSATION_RETRY_H
#define MLBRIDGE_CONVERSATION_RETRY_H

#include "conversation/circuit.h"

#include <algorithm>
#include <poll.h>
#include <random>
#include <thread>

namespace mlbridge {

constexpr int ConnectPauseMs = 10;

/// Calls connect(Deadline), and again for as long as `wait` while there is no server or a busy one.
/// Without `wait` a server that is missing is an error at once.
template <typename Connect>
auto connectWaiting(Duration wait, Deadline deadline, const Connect &connect) {
  const bool waits = wait > Duration::zero();
  const Deadline until = waits ? Deadline::after(wait) : deadline;
  while (true) {
    auto connected = connect(until);
    const Code code = connected.status().code();
    if (!waits || until.hasPassed() || (code != Code::Unavailable && code != Code::Busy))
      return connected;
    ::poll(nullptr, 0, ConnectPauseMs);
  }
}

/// The retries of one thread.
class Retry {
public:
  /// Calls attempt(Duration left, time_point now), and again up to `retries` times while
  /// mayRepeat(status).
  template <typename Attempt, typename MayRepeat>
  Status operator()(uint32_t retries, Duration left, Circuit &circuit, Attempt attempt,
                    MayRepeat mayRepeat) {
    Deadline::Clock::time_point now = Deadline::Clock::now();
    const Deadline end = Deadline::after(left, now);
    Status status = attempt(left, now);
    for (uint32_t tries = 1; tries <= retries && !circuit.isOpen() && mayRepeat(status); ++tries) {
      now = Deadline::Clock::now();
      const Duration pause = backOff(tries);
      if (!end.isNever() && now + pause >= end.when())
        break;
      std::this_thread::sleep_for(pause);
      circuit.recordTimeout(now, status);
      now = Deadline::Clock::now();
      status = attempt(end.isNever() ? left : Duration(end.when() - now), now);
    }
    return status;
  }

private:
  /// Exponential, with full jitter and a cap.
  Duration backOff(uint32_t tries) {
    constexpr Duration First = std::chrono::milliseconds(20), Longest = std::chrono::seconds(1);
    const Duration most = std::min(Longest, First * (1 << std::min<uint32_t>(tries, 10)));
    return Duration(std::uniform_int_distribution<int64_t>(0, most.count())(jitter_));
  }

  std::minstd_rand jitter_{std::random_device()()};
};

} // namespace mlbridge

#endif
