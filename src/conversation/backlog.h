// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Bytes that a channel has not taken yet.
#ifndef MLBRIDGE_CONVERSATION_BACKLOG_H
#define MLBRIDGE_CONVERSATION_BACKLOG_H

#include "core/buffer.h"
#include "transport/transport.h"

#include <deque>

namespace mlbridge {

/// First in, first out; small pieces share memory. Not thread-safe.
class Backlog {
public:
  static constexpr size_t ChunkSize = 64 * 1024;

  bool empty() const { return size_ == 0; }
  uint64_t size() const { return size_; }
  /// What is in the buffer from there on. May take over its memory. Errors: LimitExceeded.
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

} // namespace mlbridge

#endif
