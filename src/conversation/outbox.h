// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Frames that wait until the peer takes them, in bounded memory.
#ifndef MLBRIDGE_CONVERSATION_OUTBOX_H
#define MLBRIDGE_CONVERSATION_OUTBOX_H

#include "conversation/backlog.h"
#include "conversation/frame.h"

namespace mlbridge {

/// Whole frames, one after the other. Of events, which nobody waits for, the newest are kept: so
/// many, and so many bytes of them. Not thread-safe.
class Outbox {
public:
  static constexpr size_t MostEvents = 256;
  static constexpr size_t MostBytes = 1 << 20;

  bool empty() const { return frames_.empty(); }
  size_t size() const { return frames_.size(); }
  const uint8_t *data() const { return frames_.data(); }
  size_t events() const { return events_; }
  /// Events that were thrown away.
  uint64_t dropped() const { return dropped_; }
  /// Whether it begins with the frame that opens a stream.
  bool opensStream() const;

  /// Sets the header's length. Errors: LimitExceeded.
  Status add(FrameHeader header, Span<const uint8_t> payload);
  /// Takes over all that the other has to send. Errors: LimitExceeded.
  Status take(Outbox &other);
  /// Sends what the channel takes at once. What is left of a frame that has begun to go out goes to
  /// `rest`. Errors: those of Channel::write, LimitExceeded.
  Status sendTo(Channel &channel, Backlog &rest);
  /// All has been sent.
  void clear() {
    frames_.clear();
    events_ = 0;
  }
  /// Nothing will be.
  void drop() {
    dropped_ += events_;
    clear();
  }

private:
  void dropOldest();

  Buffer frames_;
  size_t events_ = 0;
  uint64_t dropped_ = 0;
};

} // namespace mlbridge

#endif
