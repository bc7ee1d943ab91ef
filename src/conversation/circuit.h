// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The circuit breaker of a Model out of process: bounds the time that a compiler waits in vain,
// however often it asks.
#ifndef MLBRIDGE_CONVERSATION_CIRCUIT_H
#define MLBRIDGE_CONVERSATION_CIRCUIT_H

#include <mlbridge/deadline.h>
#include <mlbridge/model.h>
#include <mlbridge/uri.h>

#include <atomic>
#include <memory>
#include <mutex>
#include <string>

namespace mlbridge {

/// Thread-safe. Waiting that ends with an answer costs nothing; waiting in vain is taken off a
/// budget of one deadline of the Model, which each answer restores. When it is used up the circuit
/// is open: calls fail at once, without a system call. After a pause (ten deadlines, then twice as
/// long each time) one call is let through for a tenth of a deadline. A budget without limit is
/// never used up.
class Circuit {
public:
  explicit Circuit(Duration budget) : budget_(budget), left_(budget) {}

  /// The deadline that a call may wait for, at most `limit`. Errors: Unavailable, while open.
  Expected<Deadline> admit(Deadline limit);
  /// True if calls fail without being made.
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
  void recordTimeout(Deadline::Clock::time_point since, const Status &why);

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

} // namespace mlbridge

#endif
