// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Cuts what a Channel delivers into frames.
#ifndef MLBRIDGE_CONVERSATION_FRAME_READER_H
#define MLBRIDGE_CONVERSATION_FRAME_READER_H

#include "conversation/frame.h"
#include "core/buffer.h"
#include "transport/transport.h"

namespace mlbridge {

/// Receives the frames of one connection. A small frame costs one read; the payload of a large one
/// is read straight into the buffer where it is wanted.
class FrameReader {
public:
  /// Decides on a frame by its header alone: the buffer for its payload, or an error that ends the
  /// connection.
  class Target {
  public:
    virtual ~Target() = default;
    virtual Expected<Buffer *> payloadOf(const FrameHeader &header) = 0;
    /// The payload is complete in the buffer that payloadOf gave.
    virtual Status frame(const FrameHeader &header) = 0;
    /// Asked after each frame: whether the next one may be delivered, or is left to a later pump.
    virtual bool mayGoOn() { return true; }
  };

  /// Frames with a longer payload are refused before anything is allocated.
  void setLimit(uint64_t maxMessage) { limit_ = maxMessage; }
  /// Of one pump; the rest is left to the next.
  void setMostBytes(uint64_t bytes) { mostBytes_ = bytes; }

  /// Reads what is there without blocking, and delivers every complete frame. Ok with `progress`
  /// false: nothing was there. Errors: Closed (said to be in mid-frame where it was), Protocol,
  /// LimitExceeded, and those of the target.
  Status pump(Channel &channel, Target &target, bool &progress);
  /// Whether the last pump ended before all was read. The channel need not tell of the rest.
  bool wasCut() const { return wasCut_; }

  uint64_t bytesRead() const { return bytesRead_; }

private:
  Status consume(Target &target);
  Status closed(const Status &why) const;

  static constexpr size_t StagingSize = 64 * 1024;
  Buffer staging_;
  size_t begin_ = 0, end_ = 0; ///< unread part of staging_
  bool inPayload_ = false;
  bool wasCut_ = false;
  bool lastWasLarge_ = false;
  FrameHeader header_;
  Buffer *payload_ = nullptr;
  uint64_t have_ = 0;
  uint64_t limit_ = uint64_t(256) << 20;
  uint64_t bytesRead_ = 0;
  uint64_t mostBytes_ = uint64_t(4) << 20;
};

} // namespace mlbridge

#endif
