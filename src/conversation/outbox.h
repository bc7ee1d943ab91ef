// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Bytes that wait until the peer takes them, in bounded memory.
#ifndef MLBRIDGE_CONVERSATION_OUTBOX_H
#define MLBRIDGE_CONVERSATION_OUTBOX_H

#include "conversation/frame.h"
#include "core/buffer.h"
#include "transport/transport.h"

#include <deque>

namespace mlbridge {

/// Bytes that a channel has not taken yet, first in, first out; small pieces share memory. Not
/// thread-safe.
class Backlog {
public:
  static constexpr size_t ChunkSize = 64 * 1024;

  bool empty() const { return size_ == 0; }
  uint64_t size() const { return size_; }
  /// Adds the buffer's bytes from there on. May take over its memory. Errors: LimitExceeded.
  Status add(Buffer &bytes, size_t from);
  Status add(const void *bytes, size_t size);
  /// Sends what the channel takes at once. Errors: those of Channel::write.
  Status sendTo(Channel &channel);
  void clear();

private:
  std::deque<Buffer> chunks_;
  size_t begin_ = 0; ///< of the first, what has been sent
  uint64_t size_ = 0;
};

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
  /// True if it begins with the frame that opens a stream.
  bool opensStream() const;

  /// Sets the header's length. Errors: LimitExceeded.
  Status add(FrameHeader header, Span<const uint8_t> payload);
  template <typename Message> Status addMessage(const FrameHeader &header, const Message &message) {
    Buffer payload;
    if (Status s = encode(message, payload); !s)
      return s;
    return add(header, payload.span());
  }
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
