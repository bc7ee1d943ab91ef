// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What a session says. Nothing blocks: what the channel does not take waits.
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

template <typename Encode>
Status Session::sendEncoded(FrameKind kind, uint32_t stream, uint64_t request,
                            const Encode &encodeTo) {
  Buffer frame;
  if (Status s = frame.resize(FrameHeaderSize); !s)
    return s;
  if (Status s = encodeTo(frame); !s)
    return s;
  return sendFrame(kind, stream, request, frame);
}

void Session::refuse(const Status &why) {
  ++host_.statistics.refused;
  if (why.code() == Code::Busy && !shaken_) {
    BusyMessage busy;
    busy.text = why.message();
    (void)sendEncoded(FrameKind::Busy, 0, 0, [&](Buffer &to) { return encode(busy, to); });
  } else {
    (void)sendError(0, 0, why);
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
  if (!closed_ && shaken_)
    (void)sendEncoded(FrameKind::Bye, 0, 0,
                      [&](Buffer &to) { return encode(ByeMessage{std::string(text)}, to); });
  close(Status(Code::Cancelled, "the server stopped"));
}

Status Session::sendReward(uint32_t stream, double reward) {
  return sendEncoded(FrameKind::Reward, stream, 0,
                     [&](Buffer &to) { return encode(RewardMessage{reward}, to); });
}

Status Session::sendTurn(uint32_t stream, const TurnMessage &turn) {
  return sendEncoded(FrameKind::Turn, stream, 0, [&](Buffer &to) { return encode(turn, to); });
}

void Session::sendPong(uint64_t request) {
  (void)sendEncoded(FrameKind::Pong, 0, request, [&](Buffer &to) {
    return to.append(control_.data(), std::min<size_t>(control_.size(), 64));
  });
}

void Session::sendStatistics(uint64_t request) {
  (void)sendEncoded(FrameKind::Statistics, 0, request, [&](Buffer &to) {
    return encode(StatisticsMessage{host_.statisticsNow().toMetadata()}, to);
  });
}

std::shared_ptr<ServerStream> Session::streamOf(std::string_view agent) const {
  for (const auto &[id, stream] : streams_)
    if (stream->texts->agent == agent)
      return stream;
  return nullptr;
}

Status Session::sendError(uint32_t stream, uint64_t request, const Status &why) {
  return sendEncoded(FrameKind::Error, stream, request,
                     [&](Buffer &to) { return encodeError(why, to); });
}

Status Session::decline(uint32_t stream, uint64_t request, const Status &why) {
  ++host_.statistics.refused;
  (void)sendError(stream, request, why);
  return Status();
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
    return Status();
  if (unsent_.size() > host_.options.maxUnsent ||
      (isControl && unsentControl_ > MostUnsentControl)) {
    const Status why(Code::Closed, "the compiler does not read what it asked for: " +
                                       std::to_string(unsent_.size()) + " bytes wait");
    ++host_.statistics.overLimit;
    forget(true);
    close(why); // it would not read why, either
    return why;
  }
  const size_t rest = frame.size() - taken;
  if (Status s = unsent_.add(frame, taken); !s)
    return s;
  unsentControl_ += isControl ? rest : 0;
  unsentCharge_.set(account_, unsent_.size() + Backlog::ChunkSize);
  return Status();
}

void Session::onWritable() {
  if (closed_)
    return;
  if (Status s = unsent_.sendTo(*channel_); !s)
    return close(s);
  unsentControl_ = std::min(unsentControl_, unsent_.size());
  unsentCharge_.set(unsent_.size());
}

} // namespace mlbridge
