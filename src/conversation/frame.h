// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Frames of docs/protocol.md: 40 bytes of header before every payload, and what cuts the bytes of a
// Channel into them.
#ifndef MLBRIDGE_CONVERSATION_FRAME_H
#define MLBRIDGE_CONVERSATION_FRAME_H

#include "core/buffer.h"
#include "transport/transport.h"

#include <mlbridge/deadline.h>
#include <mlbridge/status.h>
#include <mlbridge/tensor.h>

#include <cstdint>

namespace mlbridge {

enum class FrameKind : uint16_t {
  Hello = 1,
  Welcome = 2,
  OpenStream = 3,
  StreamOpened = 4,
  Request = 5,
  Reply = 6,
  Error = 7,
  Cancel = 8,
  Ping = 9,
  Pong = 10,
  Busy = 11,
  CloseStream = 12,
  Reset = 13,
  Step = 14,
  EpisodeBegin = 15,
  Reward = 16,
  EpisodeEnd = 17,
  Statistics = 18,
  Bye = 19,
  Turn = 20,
  Last = 21,
};

/// "request", "reply", …; the number of a kind that is unknown.
std::string name(FrameKind kind);

inline constexpr size_t FrameHeaderSize = 40;
inline constexpr uint32_t FrameMagic = 0x46424c4d; // "MLBF"
inline constexpr uint16_t FlagSkippable = 1; ///< a receiver that does not know the kind goes on
inline constexpr uint16_t FlagDone = 2;      ///< the answer to Reset or Step ends the episode
inline constexpr uint16_t FlagInMemory = 4;  ///< large inputs of a Request lie in the arena
inline constexpr uint16_t FlagTruncated = 8; ///< with FlagDone: because of a limit

/// The place of a tensor in a request with FlagInMemory. The payload is a u64 count, so many of
/// these, and the message without them.
struct MemoryPlace {
  uint64_t position = 0; ///< in the message that is left
  uint64_t offset = 0;   ///< of its slot in the memory
  uint64_t capacity = 0; ///< of the slot
  uint64_t bytes = 0;    ///< at its begin
};

inline constexpr uint64_t NoDeadline = UINT64_MAX;
inline constexpr uint16_t ProtocolMajor = 1;
inline constexpr uint16_t ProtocolMinor = 0;

struct FrameHeader {
  FrameKind kind = FrameKind::Ping;
  uint32_t stream = 0;        ///< 0 = the connection
  uint64_t request = 0;       ///< number within the stream; 0 = none
  uint64_t left = NoDeadline; ///< nanoseconds until the sender gives up
  uint16_t flags = 0;
  uint64_t length = 0; ///< bytes of the payload
};

void encode(const FrameHeader &header, uint8_t *to);
/// Errors: Protocol (magic, checksum). The length is not judged here.
Expected<FrameHeader> decodeFrameHeader(const uint8_t *from);

/// `now` may be given by who has just looked at the clock.
uint64_t wireTime(Deadline deadline, Deadline::Clock::time_point now = Deadline::Clock::now());
Deadline fromWireTime(uint64_t left, Deadline::Clock::time_point now = Deadline::Clock::now());

/// CRC-32C (Castagnoli), as in RFC 3720 appendix B.4.
uint32_t crc32c(const uint8_t *data, size_t size);
/// The same without the processor's instruction for it.
uint32_t crc32cByTables(const uint8_t *data, size_t size);

/// The result of a receiver that has no use for the frame: Protocol, or Ok if it may be skipped.
Status unexpectedFrame(const FrameHeader &header);
/// LimitExceeded if the payload has more than `most` bytes; `limit` names that for the message.
Status checkLength(const FrameHeader &header, uint64_t most, const char *limit = "");

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
    /// Asked after each frame that may not be the last: whether the next one may be delivered, or
    /// is left to a later pump.
    virtual bool mayGoOn() { return true; }
  };

  /// Frames with a longer payload are refused before anything is allocated.
  void setLimit(uint64_t maxMessage) { limit_ = maxMessage; }
  /// The most bytes of one pump; the rest is left to the next.
  void setMostBytes(uint64_t bytes) { mostBytes_ = bytes; }

  /// Reads what is there without blocking, and delivers every complete frame. Ok with `progress`
  /// false: nothing was there. Errors: Closed (said to be in mid-frame where it was), Protocol,
  /// LimitExceeded, and those of the target.
  Status pump(Channel &channel, Target &target, bool &progress);
  /// True if the last pump ended before all was read. The channel need not tell of the rest.
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
