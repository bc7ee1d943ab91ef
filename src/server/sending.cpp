// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What a session says. Nothing blocks: what the channel does not take waits in chunks.
#include "server/session.h"

#include <algorithm>

namespace mlbridge {

namespace {

// Of what is asked for at no cost, far less may wait than of replies.
constexpr uint64_t MostUnsentControl = 8 << 20;

bool isControl(FrameKind kind) {
  switch (kind) {
  case FrameKind::Welcome:
  case FrameKind::Pong:
  case FrameKind::Statistics:
  case FrameKind::Error:
    return true;
  default:
    return false;
  }
}

} // namespace

void Session::refuse(const Status &why) {
  ++host_.statistics.refused;
  Buffer frame;
  if (frame.resize(FrameHeaderSize)) {
    if (why.code() == Code::Busy && !shaken_) {
      BusyMessage busy;
      busy.text = why.message();
      if (encode(busy, frame))
        (void)sendFrame(FrameKind::Busy, 0, 0, frame);
    } else if (encodeError(why, frame)) {
      (void)sendFrame(FrameKind::Error, 0, 0, frame);
    }
  }
  close(why);
}

void Session::evict(const Status &why) {
  forget(true);
  if (closed_)
    return;
  ++host_.statistics.overLimit;
  refuse(why);
}

void Session::sayGoodbye(std::string_view text) {
  Buffer frame;
  if (!closed_ && shaken_ && frame.resize(FrameHeaderSize) && encodeText(text, frame))
    (void)sendFrame(FrameKind::Bye, 0, 0, frame);
  close(Status(Code::Cancelled, "the server stopped"));
}

Status Session::sendReward(uint32_t stream, double reward) {
  Buffer frame;
  if (Status s = frame.resize(FrameHeaderSize); !s)
    return s;
  if (Status s = encodeReward(reward, frame); !s)
    return s;
  return sendFrame(FrameKind::Reward, stream, 0, frame);
}

Status Session::sendTurn(uint32_t stream, const TurnMessage &turn) {
  Buffer frame;
  if (Status s = frame.resize(FrameHeaderSize); !s)
    return s;
  if (Status s = encode(turn, frame); !s)
    return s;
  return sendFrame(FrameKind::Turn, stream, 0, frame);
}

std::shared_ptr<ServerStream> Session::streamOf(std::string_view agent) const {
  for (const auto &[id, stream] : streams_)
    if (stream->texts->agent == agent)
      return stream;
  return nullptr;
}

Status Session::sendError(uint32_t stream, uint64_t request, const Status &why) {
  Buffer frame;
  if (Status s = frame.resize(FrameHeaderSize); !s)
    return s;
  if (Status s = encodeError(why, frame); !s)
    return s;
  return sendFrame(FrameKind::Error, stream, request, frame);
}

Status Session::sendFrame(FrameKind kind, uint32_t stream, uint64_t request, Buffer &frame,
                          uint16_t flags) {
  FrameHeader header;
  header.kind = kind;
  header.flags = flags;
  header.stream = stream;
  header.request = request;
  header.length = frame.size() - FrameHeaderSize;
  if (peerLimit_ && header.length > peerLimit_)
    return Status(Code::LimitExceeded, "the answer has " + std::to_string(header.length) +
                                           " bytes, the compiler accepts " +
                                           std::to_string(peerLimit_));
  encode(header, frame.data());
  return send(frame, isControl(kind));
}

/// May take the buffer's memory.
Status Session::send(Buffer &frame, bool isControl) {
  if (closed_)
    return Status(Code::Closed, "the compiler is gone");
  host_.statistics.bytesOut += frame.size();
  onWritable(); // what waits goes first, and may go by now
  size_t taken = 0;
  if (!closed_ && !hasUnsent()) {
    const iovec part{frame.data(), frame.size()};
    if (Expected<size_t> n = channel_->write(&part, 1))
      taken = *n;
    else
      close(n.status());
  }
  if (closed_)
    return Status(Code::Closed, "the compiler is gone");
  if (taken == frame.size())
    return Status::ok();
  if (unsentSize_ > host_.options.maxUnsent || (isControl && unsentControl_ > MostUnsentControl)) {
    const Status why(Code::Closed, "the compiler does not read what it asked for: " +
                                       std::to_string(unsentSize_) + " bytes wait");
    ++host_.statistics.overLimit;
    forget(true);
    close(why); // it would not read why, either
    return why;
  }
  constexpr size_t Chunk = 64 * 1024;
  const size_t rest = frame.size() - taken;
  if (rest >= Chunk) {
    if (unsent_.empty())
      unsentFrom_ = taken; // else nothing was taken
    unsent_.push_back(std::move(frame));
  } else {
    if (unsent_.empty() || unsent_.back().capacity() - unsent_.back().size() < rest) {
      Buffer chunk;
      if (Status s = chunk.reserve(Chunk); !s)
        return s;
      if (unsent_.empty())
        unsentFrom_ = 0;
      unsent_.push_back(std::move(chunk));
    }
    if (Status s = unsent_.back().append(frame.data() + taken, rest); !s)
      return s;
  }
  unsentSize_ += rest;
  unsentControl_ += isControl ? rest : 0;
  unsentCharge_.set(account_, unsentSize_ + Chunk);
  return Status::ok();
}

void Session::onWritable() {
  while (!closed_ && !unsent_.empty()) {
    Buffer &first = unsent_.front();
    const iovec part{first.data() + unsentFrom_, first.size() - unsentFrom_};
    Expected<size_t> n = channel_->write(&part, 1);
    if (!n)
      return close(n.status());
    if (*n == 0)
      break;
    unsentFrom_ += *n;
    unsentSize_ -= *n;
    unsentControl_ = std::min(unsentControl_, unsentSize_);
    if (unsentFrom_ == first.size()) {
      unsent_.pop_front();
      unsentFrom_ = 0;
    }
  }
  if (!closed_)
    unsentCharge_.set(unsent_.empty() ? 0 : unsentSize_);
}

} // namespace mlbridge
