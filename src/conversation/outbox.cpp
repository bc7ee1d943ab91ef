// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "conversation/outbox.h"

#include <cstring>

namespace mlbridge {

Status Backlog::add(Buffer &bytes, size_t from) {
  const size_t size = bytes.size() - from;
  if (size < ChunkSize || (from != 0 && !empty()))
    return add(bytes.data() + from, size);
  if (empty())
    begin_ = from;
  chunks_.push_back(std::move(bytes));
  size_ += size;
  return Status();
}

Status Backlog::add(const void *bytes, size_t size) {
  if (chunks_.empty() || chunks_.back().capacity() - chunks_.back().size() < size) {
    Buffer chunk;
    if (Status s = chunk.reserve(std::max(size, ChunkSize)); !s)
      return s;
    chunks_.push_back(std::move(chunk));
  }
  size_ += size;
  return chunks_.back().append(bytes, size);
}

Status Backlog::sendTo(Channel &channel) {
  while (!empty()) {
    Buffer &first = chunks_.front();
    const iovec part{first.data() + begin_, first.size() - begin_};
    Expected<size_t> taken = channel.write(&part, 1);
    if (!taken || *taken == 0)
      return taken.status();
    begin_ += *taken;
    size_ -= *taken;
    if (begin_ == first.size()) {
      chunks_.pop_front();
      begin_ = 0;
    }
  }
  return Status();
}

void Backlog::clear() {
  chunks_.clear();
  begin_ = size_ = 0;
}

namespace {

bool isEvent(FrameKind kind) {
  return kind == FrameKind::EpisodeBegin || kind == FrameKind::Reward ||
         kind == FrameKind::EpisodeEnd;
}

/// The frame that begins at an address, which this side has written.
struct Frame {
  explicit Frame(const uint8_t *at) {
    const FrameHeader header = *decodeFrameHeader(at);
    size = FrameHeaderSize + header.length;
    kind = header.kind;
  }
  size_t size;
  FrameKind kind;
};

void erase(Buffer &from, size_t at, size_t size) {
  std::memmove(from.data() + at, from.data() + at + size, from.size() - at - size);
  (void)from.resize(from.size() - size); // shrinks
}

} // namespace

bool Outbox::opensStream() const {
  return !empty() && Frame(frames_.data()).kind == FrameKind::OpenStream;
}

Status Outbox::add(FrameHeader header, Span<const uint8_t> payload) {
  header.length = payload.size();
  uint8_t bytes[FrameHeaderSize];
  encode(header, bytes);
  if (Status s = frames_.reserve(frames_.size() + sizeof bytes + payload.size()); !s)
    return s;
  (void)frames_.append(bytes, sizeof bytes);
  (void)frames_.append(payload.data(), payload.size());
  events_ += isEvent(header.kind);
  dropOldest();
  return Status();
}

Status Outbox::take(Outbox &other) {
  if (empty())
    frames_.swap(other.frames_);
  else if (Status s = frames_.append(other.data(), other.size()); !s)
    return s;
  events_ += other.events_;
  other.clear();
  dropOldest();
  return Status();
}

void Outbox::dropOldest() {
  size_t at = 0;
  while (events_ > MostEvents || (events_ > 1 && frames_.size() > MostBytes)) {
    const Frame frame(frames_.data() + at);
    if (isEvent(frame.kind)) {
      erase(frames_, at, frame.size);
      --events_;
      ++dropped_;
    } else {
      at += frame.size;
    }
  }
}

Status Outbox::sendTo(Channel &channel, Backlog &rest) {
  if (empty())
    return Status();
  const iovec part{frames_.data(), frames_.size()};
  const Expected<size_t> taken = channel.write(&part, 1);
  if (!taken)
    return taken.status();
  const size_t size = *taken;
  size_t end = 0;
  while (end < size) {
    const Frame frame(frames_.data() + end);
    end += frame.size;
    events_ -= isEvent(frame.kind);
  }
  const Status kept = end == size ? Status() : rest.add(frames_.data() + size, end - size);
  erase(frames_, 0, end);
  return kept;
}

} // namespace mlbridge
