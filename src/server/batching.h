// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Whom a server waits for that gathers a batch.
#ifndef MLBRIDGE_SERVER_BATCHING_H
#define MLBRIDGE_SERVER_BATCHING_H

#include <mlbridge/deadline.h>

#include <algorithm>
#include <cstdint>

namespace mlbridge {

/// How promptly a connection sends its next request after an answer.
class RequestPace {
public:
  using Time = Deadline::Clock::time_point;
  /// The first request may come from now on.
  void begin(Time now) { since_ = now; }
  /// A request has come. `patience`: the time that batches wait.
  void requested(Time now, Duration patience) {
    most_ = std::max(most_, ++open_);
    if (now - since_ <= patience)
      neededPrompt_ -= neededPrompt_ != 0;
  }
  /// A request is answered, or given up.
  void answered(Time now) {
    --open_;
    since_ = now;
  }
  /// A batch has waited for this connection, and no request came: it isn't waited for until so many
  /// of its requests have been prompt, more each time.
  void recordTimeout() {
    most_ = std::max<uint32_t>(open_, 1);
    neededPrompt_ = penalty_ = std::min<uint32_t>(2 * penalty_ + 1, MostNeeded);
  }
  /// A batch has waited for this connection, and a request came.
  void recordSuccess() { penalty_ /= 2; }
  /// Requests that wait or are being answered.
  uint32_t open() const { return open_; }
  /// True if another request is to be expected soon.
  bool isAwaited() const { return open_ < most_ && neededPrompt_ == 0; }

private:
  static constexpr uint32_t MostNeeded = 1023;
  uint32_t open_ = 0;
  uint32_t most_ = 1; ///< that were open at once
  uint32_t neededPrompt_ = 0, penalty_ = 0;
  Time since_; ///< when the last was answered
};

} // namespace mlbridge

#endif
