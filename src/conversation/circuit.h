// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The circuit breaker of a Model out of process, which bounds the time that a compiler waits in
// vain however often it asks; and retrying, with pauses, within a deadline.
#ifndef MLBRIDGE_CONVERSATION_CIRCUIT_H
#define MLBRIDGE_CONVERSATION_CIRCUIT_H

#include <mlbridge/deadline.h>
#include <mlbridge/model.h>
#include <mlbridge/uri.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <mutex>
#include <poll.h>
#include <random>
#include <string>
#include <thread>

namespace mlbridge {

/// Thread-safe. Waiting that ends with an answer costs nothing; waiting in vain is taken off a
/// budget of one deadline of the Model, which each answer restores. When it is used up the circuit
/// is open: calls fail at once, without a system call. After a pause (ten deadlines, then twice as
/// long each time) one call is let through for a tenth of a deadline. A budget without limit is
/// never used up.
class Circuit {
public:
  explicit Circuit(Duration budget) : budget_(budget), left_(budget) {}

  /// The deadline that a call may wait for, at most `asked`. Errors: Unavailable, while open.
  Expected<Deadline> admit(Deadline asked);
  /// Whether calls fail without being made.
  bool isOpen() {
    const std::lock_guard<std::mutex> lock(mutex_);
    return open_;
  }
  /// The call was answered, well or not.
  void answered() {
    if (troubled_.load(std::memory_order_relaxed))
      recover();
  }
  /// There is a server: an open circuit lets calls through again, for a tenth of the budget.
  void reached();
  /// The call waited from `since` on and got nothing.
  void waitedInVain(Deadline::Clock::time_point since, const Status &why);

private:
  void recover();

  const Duration budget_;
  std::atomic<bool> troubled_{false};
  std::mutex mutex_;
  Duration left_;
  bool open_ = false;
  Deadline::Clock::time_point openedAt_{};
  Deadline retryAt_;
  Duration pause_{0};
  std::string why_;
};

/// The budget of the address, which those share who ask for that.
std::shared_ptr<Circuit> circuitOf(const Uri &uri, const OpenOptions &options);

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

/// Of one thread.
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
      circuit.waitedInVain(now, status);
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
