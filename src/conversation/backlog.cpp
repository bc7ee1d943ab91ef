// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "conversation/backlog.h"

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

} // namespace mlbridge
