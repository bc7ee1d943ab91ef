// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Reading and writing of the rings: what each message passes through.
#include "transport/shm/memory.h"

#include "core/message.h"

#include <algorithm>
#include <cstring>

namespace mlbridge {

static Status impossible(const char *what, uint64_t distance, size_t size) {
  return makeError(Code::Protocol, "shared memory: the peer says that it has ", what,
                   ", which leaves ", distance, " bytes in a ring of ", size);
}

Expected<size_t> RingReader::read(uint8_t *to, size_t size) {
  const uint64_t there = control_->written.load() - taken_;
  if (there > size_)
    return impossible("written", there, size_);
  const size_t n = std::min<size_t>(there, size);
  if (n == 0)
    return n;
  const size_t at = taken_ & (size_ - 1);
  const size_t first = std::min(n, size_ - at);
  std::memcpy(to, bytes_ + at, first);
  if (n != first)
    std::memcpy(to + first, bytes_, n - first);
  taken_ += n;
  control_->taken.store(taken_);
  return n;
}

Expected<size_t> RingWriter::write(const iovec *parts, int count) {
  size_t wanted = 0;
  for (int i = 0; i < count; ++i)
    wanted += parts[i].iov_len;
  if (size_ - (written_ - knownTaken_) < wanted) {
    knownTaken_ = control_->taken.load();
    if (written_ - knownTaken_ > size_) {
      const uint64_t distance = written_ - knownTaken_;
      knownTaken_ = written_ - size_; // full, whatever comes
      return impossible("read", distance, size_);
    }
  }
  size_t left = std::min<size_t>(wanted, size_ - (written_ - knownTaken_));
  const size_t total = left;
  if (total == 0)
    return total;
  uint64_t position = written_;
  for (const iovec *part = parts; left; ++part) {
    const auto *from = static_cast<const uint8_t *>(part->iov_base);
    const size_t n = std::min(part->iov_len, left);
    const size_t at = position & (size_ - 1);
    const size_t first = std::min(n, size_ - at);
    if (first)
      std::memcpy(bytes_ + at, from, first);
    if (n != first)
      std::memcpy(bytes_, from + first, n - first);
    position += n;
    left -= n;
  }
  written_ = position;
  control_->written.store(written_);
  return total;
}

} // namespace mlbridge
