// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "conversation/frame_reader.h"

#include <algorithm>
#include <cstring>

namespace mlbridge {

Status FrameReader::closed(const Status &why) const {
  if (inPayload_)
    return Status(why.code(), why.message() + " after " + std::to_string(have_) + " of " +
                                  std::to_string(header_.length) + " payload bytes");
  if (end_ != begin_)
    return Status(why.code(), why.message() + " after " + std::to_string(end_ - begin_) + " of " +
                                  std::to_string(FrameHeaderSize) + " header bytes");
  return why;
}

Status FrameReader::pump(Channel &channel, Target &target, bool &progress) {
  progress = false;
  if (staging_.empty())
    if (Status s = staging_.resize(StagingSize); !s)
      return s;
  if (wasCut_ && begin_ != end_) {
    progress = true;
    if (Status s = consume(target); !s || wasCut_)
      return s;
  }
  wasCut_ = false;
  // Bounded, so that a fast peer does not keep a server from the others.
  const uint64_t until = bytesRead_ + mostBytes_;
  while (bytesRead_ < until) {
    uint8_t *to;
    size_t room;
    const bool direct = inPayload_ && header_.length - have_ > 0 && begin_ == end_ &&
                        header_.length - have_ >= StagingSize / 8;
    if (direct) {
      to = payload_->data() + have_;
      room = std::min(header_.length - have_, until - bytesRead_);
    } else {
      if (begin_ == end_)
        begin_ = end_ = 0;
      else if (end_ == StagingSize) {
        std::memmove(staging_.data(), staging_.data() + begin_, end_ - begin_);
        end_ -= begin_;
        begin_ = 0;
      }
      to = staging_.data() + end_;
      // After a large frame another one is likely: take its header alone and read the rest to its
      // place.
      room = lastWasLarge_ && begin_ == end_ && !inPayload_ ? FrameHeaderSize : StagingSize - end_;
    }
    Expected<size_t> n = channel.read(to, room);
    if (!n)
      return closed(n.status());
    if (*n == 0)
      return Status();
    progress = true;
    bytesRead_ += *n;
    if (direct)
      have_ += *n;
    else
      end_ += *n;
    if (Status s = consume(target); !s || wasCut_)
      return s;
    // A short read means that the channel is empty: don't pay for being told so.
    if (*n < room)
      return Status();
  }
  wasCut_ = true;
  return Status();
}

Status FrameReader::consume(Target &target) {
  wasCut_ = false;
  while (true) {
    if (!inPayload_) {
      if (end_ - begin_ < FrameHeaderSize) {
        // Garbage shorter than a header would otherwise be waited on until the deadline.
        if (const size_t size = std::min<size_t>(end_ - begin_, sizeof FrameMagic))
          if (std::memcmp(staging_.data() + begin_, &FrameMagic, size) != 0)
            return Status(Code::Protocol, "expected a frame that starts with 'MLBF', got other "
                                          "bytes: the peer does not speak this protocol");
        return Status();
      }
      Expected<FrameHeader> header = decodeFrameHeader(staging_.data() + begin_);
      if (!header)
        return header.status();
      if (header->length > limit_)
        return Status(Code::LimitExceeded, "a frame of kind " +
                                               std::to_string(static_cast<int>(header->kind)) +
                                               " states " + std::to_string(header->length) +
                                               " bytes, the limit is " + std::to_string(limit_));
      begin_ += FrameHeaderSize;
      header_ = *header;
      Expected<Buffer *> payload = target.payloadOf(header_);
      if (!payload)
        return payload.status();
      payload_ = *payload;
      if (Status s = payload_->resize(header_.length); !s)
        return s;
      have_ = 0;
      lastWasLarge_ = header_.length >= StagingSize / 4;
      inPayload_ = true;
    }
    if (const size_t take = std::min<uint64_t>(end_ - begin_, header_.length - have_)) {
      std::memcpy(payload_->data() + have_, staging_.data() + begin_, take);
      have_ += take;
      begin_ += take;
    }
    if (have_ < header_.length)
      return Status();
    inPayload_ = false;
    if (Status s = target.frame(header_); !s)
      return s;
    if (!target.mayGoOn()) {
      wasCut_ = true;
      return Status();
    }
  }
}

} // namespace mlbridge
