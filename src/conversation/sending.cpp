// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// One thread at a time writes, and what the server does not take at once goes before whatever is
// sent next.
#include "conversation/connection.h"
#include "core/message.h"

#include "core/message.h"

namespace mlbridge {

/// The most unsent bytes of a message that has begun to go out; for more the connection ends.
constexpr size_t MostPartial = 16 << 20;
/// The longest message that is handed to the channel with the lock held.
constexpr size_t MostWithLock = 4096;

/// `begun`: whether the frames have gone out, or will.
Status Connection::send(const iovec *frames, int count, Lock &lock, Deadline deadline,
                        bool &begun) {
  while (writing_) {
    if (!status_)
      return status_;
    waitFor(writable_, lock, deadline);
    if (writing_ && deadline.hasPassed())
      return makeError(Code::DeadlineExceeded,
                       "the server did not read another thread's message in time");
  }
  if (!status_)
    return status_;
  writing_ = true;
  Status status = hasUnsent() ? flush(lock, deadline) : Status();
  if (status) {
    size_t size = 0;
    for (int i = 0; i < count; ++i)
      size += frames[i].iov_len;
    // Copying little takes less time than giving the lock back.
    const bool isShort = size <= MostWithLock;
    if (!isShort)
      lock.unlock();
    Expected<size_t> taken = channel_->write(frames, count);
    begun = taken && *taken == size;
    if (!begun) {
      if (isShort)
        lock.unlock();
      status = write(frames, count, std::move(taken), deadline, begun);
    }
    if (!lock.owns_lock())
      lock.lock();
    if (!status && status.code() != Code::DeadlineExceeded)
      breakWith(status, lock);
  }
  if (status && hasUnsent())
    (void)flush(lock, Deadline::after(Duration::zero()));
  writing_ = false;
  writable_.notify_one();
  return status;
}

Status Connection::post(StreamSlot &slot, Outbox &frames) {
  if (Status s = checkProcess(); !s)
    return s;
  Lock lock(mutex_);
  if (!writing_ && status_) { // else that thread sends it when it is done
    writing_ = true;
    const Deadline now = Deadline::after(Duration::zero());
    if (flush(lock, now))
      (void)drain(frames, lock, now);
    writing_ = false;
    writable_.notify_one();
  }
  if (!status_) {
    slot.dropped += frames.events();
    frames.clear();
  }
  if (frames.empty())
    return status_;
  Outbox &box = outboxes_[slot.id];
  const uint64_t before = box.dropped();
  const Status taken = box.take(frames);
  slot.dropped += box.dropped() - before;
  return taken;
}

/// Sends what waits, without waiting, if nobody else writes.
void Connection::flushNow(Lock &lock) {
  if (writing_)
    return;
  writing_ = true;
  (void)flush(lock, Deadline::after(Duration::zero()));
  writing_ = false;
  writable_.notify_one();
}

/// Sends what waits. The caller has the writer's role. Errors: DeadlineExceeded (what was not taken
/// goes on waiting), and what the connection broke of.
Status Connection::flush(Lock &lock, Deadline deadline) {
  if (!hasUnsent())
    return status_;
  Outbox none;
  Status status = drain(none, lock, deadline);
  while (status && !outboxes_.empty()) {
    const auto first = outboxes_.begin();
    status = drain(first->second, lock, deadline);
    if (status)
      outboxes_.erase(first);
  }
  return status;
}

/// Sends the rest of what has begun to go out, and then what is in the box.
Status Connection::drain(Outbox &box, Lock &lock, Deadline deadline) {
  while (status_) {
    Status status = partial_.sendTo(*channel_);
    if (status && partial_.empty())
      status = box.sendTo(*channel_, partial_);
    if (status && partial_.empty() && box.empty())
      return Status();
    if (status && deadline.hasPassed())
      return makeError(Code::DeadlineExceeded,
                       "the server did not read the messages before this one in time");
    lock.unlock();
    status = status ? awaitRoom(deadline) : lastWords(status);
    lock.lock();
    if (!status && status.code() != Code::DeadlineExceeded)
      breakWith(status, lock);
    if (!status)
      return status;
  }
  return status_;
}

/// Goes on after a first write, which took so much.
Status Connection::write(const iovec *frames, int count, Expected<size_t> taken, Deadline deadline,
                         bool &begun) {
  iovec parts[MaxParts];
  size_t left = 0;
  for (int i = 0; i < count; ++i) {
    parts[i] = frames[i];
    left += frames[i].iov_len;
  }
  const size_t total = left;
  iovec *at = parts;
  while (true) {
    if (!taken)
      return lastWords(taken.status());
    left -= *taken;
    begun = left != total;
    if (left == 0)
      return Status();
    size_t skip = *taken;
    while (skip && skip >= at->iov_len) {
      skip -= at->iov_len;
      ++at;
      --count;
    }
    at->iov_base = static_cast<uint8_t *>(at->iov_base) + skip;
    at->iov_len -= skip;
    Status status;
    if (deadline.hasPassed())
      status = makeError(Code::DeadlineExceeded, "");
    else if (*taken == 0)
      status = awaitRoom(deadline);
    if (status) {
      taken = channel_->write(at, count);
      continue;
    }
    if (status.code() != Code::DeadlineExceeded)
      return status;
    const auto late = [&](Code code, const auto &...more) {
      return makeError(code, "the server read only ", total - left, " of ", total, " bytes in time",
                       more...);
    };
    if (begun && left > MostPartial)
      return late(Code::Closed, "; the connection was closed");
    const Lock lock(mutex_);
    for (int i = 0; begun && i < count; ++i)
      if (Status s = partial_.add(at[i].iov_base, at[i].iov_len); !s)
        return late(Code::Closed, "; ", s.message());
    return late(Code::DeadlineExceeded);
  }
}

/// The peer may be unable to read on before we have read what it sent.
Status Connection::awaitRoom(Deadline deadline) {
  bool readHere = false;
  {
    const Lock lock(mutex_);
    if (!reading_ && handshakeDone_)
      readHere = reading_ = true;
  }
  Readiness ready;
  Status status = pumpAs({readHere, true}, deadline, ready);
  if (readHere) {
    Lock lock(mutex_);
    passReaderRole(lock);
  }
  return status;
}

/// The last error frame of a peer that no longer reads says more than that it went.
Status Connection::lastWords(const Status &why) {
  {
    const Lock lock(mutex_);
    if (reading_)
      return why;
    reading_ = true;
  }
  Readiness ready;
  const Status said = pumpAs({true, false}, Deadline::after(Duration::zero()), ready);
  Lock lock(mutex_);
  passReaderRole(lock);
  return said.ok() || said.code() == Code::DeadlineExceeded ? why : said;
}

void Connection::sendSmall(FrameKind kind, uint32_t stream, uint64_t request,
                           const Buffer &payload) {
  if (!checkProcess())
    return;
  Lock lock(mutex_);
  if (!status_)
    return;
  // A server that reads nothing needs no more of them.
  if (Outbox &box = outboxes_[0]; box.size() < Outbox::MostBytes)
    (void)box.add({kind, stream, request}, payload.span());
  flushNow(lock);
}

} // namespace mlbridge
