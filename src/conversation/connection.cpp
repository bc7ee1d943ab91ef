// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The streams of a connection: what comes goes to whom it is for, and who asks waits for it.
#include "conversation/connection.h"

#include "core/message.h"
#include "core/process.h"

namespace mlbridge {

namespace {

constexpr size_t MostControl = 16 << 20; ///< of a frame that is no answer
constexpr size_t MostPing = 64, MostStatistics = 1 << 20;
/// The most bytes that wait in outboxes; more is not kept for streams that are closed.
constexpr size_t MostWaiting = 16 << 20;

} // namespace

Connection::Connection(std::unique_ptr<Channel> channel)
    : channel_(std::move(channel)), process_(processNumber()) {}

Status Connection::failure() {
  const Lock lock(mutex_);
  return status_;
}

Status Connection::openStream(StreamSlot &slot, const OpenStream &open, Outbox &frames) {
  slot.refused = Status();
  slot.awaiting = 0;
  {
    const Lock lock(mutex_);
    slot.id = ++lastStream_;
    streams_[slot.id] = &slot;
  }
  return frames.addMessage({FrameKind::OpenStream, slot.id}, open);
}

void Connection::removeStream(StreamSlot &slot) {
  if (!checkProcess()) // the stream is the parent's, and so may be the mutex
    return;
  Lock lock(mutex_);
  streams_.erase(slot.id);
  if (!status_)
    return;
  size_t waiting = 0;
  for (const auto &[id, box] : outboxes_)
    waiting += box.size();
  Outbox &box = outboxes_[slot.id];
  const bool opened = !box.opensStream();
  if (waiting > MostWaiting)
    box.drop();
  if (opened || !box.empty())
    (void)box.add({FrameKind::CloseStream, slot.id}, {});
  flushNow(lock);
}

Expected<Buffer *> Connection::payloadOf(const FrameHeader &header) {
  const bool isLarge = header.kind == FrameKind::Reply || header.kind == FrameKind::Last;
  const uint64_t most = !handshakeDone_                        ? maxWelcome_
                        : header.kind == FrameKind::Ping       ? MostPing
                        : header.kind == FrameKind::Statistics ? MostStatistics
                        : isLarge                              ? UINT64_MAX
                                                               : MostControl;
  if (Status s = checkLength(header, most, handshakeDone_ ? "" : " ('max-welcome')"); !s)
    return s;
  // The stream of a frame is looked up when it is complete: it may be gone by then.
  incoming_.clear();
  return &incoming_;
}

/// Nothing if the stream is gone.
template <typename Use> void Connection::atStream(uint32_t id, const Use &use) {
  const Lock lock(mutex_);
  if (const auto found = streams_.find(id); found != streams_.end())
    use(*found->second);
}

Status Connection::frame(const FrameHeader &header) {
  if (!handshakeDone_)
    return welcomeFrame(header);
  if (header.kind == FrameKind::Reply && header.stream != 0) {
    answer(header);
    return Status();
  }
  return rareFrame(header);
}

Status Connection::rareFrame(const FrameHeader &header) {
  switch (header.kind) {
  case FrameKind::Reply:
  case FrameKind::Error:
    if (header.stream == 0)
      return decodeError(incoming_.span());
    answer(header);
    return Status();
  case FrameKind::Busy:
    if (header.stream == 0)
      return decodeBusy(incoming_.span());
    answer(header);
    return Status();
  case FrameKind::Statistics:
    answer(header);
    return Status();
  case FrameKind::Reward: {
    const Expected<RewardMessage> reward = decode<RewardMessage>(incoming_.span());
    if (reward)
      atStream(header.stream, [&](StreamSlot &slot) { slot.reward = reward->value; });
    return reward.status();
  }
  case FrameKind::Turn: {
    Expected<TurnMessage> turn = decode<TurnMessage>(incoming_.span());
    if (turn)
      atStream(header.stream, [&](StreamSlot &slot) { slot.turn = std::move(*turn); });
    return turn.status();
  }
  case FrameKind::Last:
    if (welcome_.role == ServerRole::Environment)
      atStream(header.stream, [&](StreamSlot &slot) {
        slot.last.swap(incoming_);
        slot.hasLast = true;
      });
    return Status();
  case FrameKind::StreamOpened:
  case FrameKind::Pong:
  case FrameKind::Welcome: // of an earlier hello over the same FIFOs
    return Status();
  case FrameKind::Ping:
    sendSmall(FrameKind::Pong, 0, header.request, incoming_);
    return Status();
  case FrameKind::Bye: {
    Expected<ByeMessage> bye = decode<ByeMessage>(incoming_.span());
    return makeError(Code::Closed, "the server ended the connection",
                     (bye && !bye->text.empty() ? ": " + bye->text : ""));
  }
  case FrameKind::Reset:
  case FrameKind::Step: {
    Buffer text;
    if (Status s = encode(makeError(Code::Unsupported, "this compiler cannot be driven"), text); !s)
      return s;
    sendSmall(FrameKind::Error, header.stream, header.request, text);
    return Status();
  }
  default:
    return unexpectedFrame(header);
  }
}

void Connection::answer(const FrameHeader &header) {
  const Lock lock(mutex_);
  const auto found = streams_.find(header.stream);
  if (found == streams_.end())
    return;
  StreamSlot &slot = *found->second;
  Status error;
  if (header.kind == FrameKind::Error)
    error = decodeError(incoming_.span());
  else if (header.kind == FrameKind::Busy)
    error = decodeBusy(incoming_.span());
  if (header.request == 0 && !error)
    slot.refused = error;
  else if (header.request != slot.awaiting || slot.answered) { // late, with what came before it
    if (welcome_.role == ServerRole::Environment)
      for (auto &[id, other] : streams_)
        other->hasLast = false;
    return;
  }
  slot.answered = true;
  slot.error = std::move(error);
  slot.done = (header.flags & FlagDone) != 0;
  slot.truncated = (header.flags & FlagTruncated) != 0;
  if (header.kind == FrameKind::Reply || header.kind == FrameKind::Statistics)
    slot.reply.swap(incoming_);
  if (slot.waiting)
    slot.wake.notify_one();
}

/// Waits for what is wanted, and reads if reading may go on. The caller has the reader's role if it
/// wants to read.
Status Connection::pumpAs(Readiness wanted, Deadline deadline, Readiness &ready) {
  bool progress = false;
  if (!wanted.write && handover_.yields()) {
    Status status;
    const auto look = [&] {
      if (!channel_->look({true, false}).read)
        return false;
      status = reader_.pump(*channel_, *this, progress);
      return !status || progress;
    };
    if ((channel_->isQuiet() && handover_.spinUntil(look)) || handover_.yieldUntil(look)) {
      ready = {true, false};
      return status;
    }
  }
  Expected<Readiness> found = channel_->wait(wanted, deadline);
  if (!found)
    return found.status();
  ready = *found;
  if (!ready.read)
    return Status();
  return reader_.pump(*channel_, *this, progress);
}

void Connection::breakWith(const Status &why, Lock &) {
  if (!status_)
    return;
  status_ = why;
  usable_.store(false, std::memory_order_release);
  for (auto &[id, slot] : streams_) {
    slot->wake.notify_all();
    if (const auto box = outboxes_.find(id); box != outboxes_.end())
      slot->dropped += box->second.events();
  }
  outboxes_.clear();
  writable_.notify_all();
}

void Connection::passReaderRole(Lock &) {
  reading_ = false;
  for (auto &[id, slot] : streams_) {
    if (slot->waiting && !slot->answered) {
      slot->wake.notify_one();
      return;
    }
  }
}

Status Connection::checkProcess() const {
  if (processNumber() == process_)
    return Status();
  return makeError(
      Code::InvalidArgument,
      "the connection was opened before fork(); open the model again in the child process");
}

void Connection::idle(Duration time) {
  Lock lock(mutex_);
  if (reading_ || !status_)
    return;
  reading_ = true;
  for (const Deadline end = Deadline::after(time); status_ && !end.hasPassed();) {
    lock.unlock();
    Readiness ready;
    const Status status = pumpAs({true, false}, end, ready);
    lock.lock();
    if (!status && status.code() != Code::DeadlineExceeded)
      breakWith(status, lock);
  }
  passReaderRole(lock);
}

Status Connection::exchange(StreamSlot &slot, uint64_t request, const iovec *frames, int count,
                            Deadline deadline, bool &sentAll, Duration patience) {
  sentAll = false;
  if (Status s = checkProcess(); !s)
    return s;
  Lock lock(mutex_);
  if (!status_)
    return status_;
  if (!slot.refused)
    return slot.refused;
  slot.awaiting = request;
  slot.answered = false;
  slot.reward = 0;
  slot.turn.reset();
  const Status sent = send(frames, count, lock, deadline, sentAll);
  const bool isPatient = patience == Duration::max(); // and the clock need not be read
  Deadline silence = isPatient ? Deadline::never() : Deadline::after(patience);
  bool isAskedFor = false; // whether the server is there
  while (true) {
    if (slot.answered) {
      slot.awaiting = 0;
      return slot.error;
    }
    if (!status_ || !sentAll) {
      slot.awaiting = 0;
      return !status_ ? status_ : sent;
    }
    if (!sent)
      break;
    if (!reading_) {
      reading_ = true;
      lock.unlock();
      const uint64_t before = reader_.bytesRead();
      Readiness ready;
      Status status = pumpAs({true, false}, earlier(deadline, silence), ready);
      handover_.waited(handover_.end());
      const bool isSilent = reader_.bytesRead() == before;
      if (isSilent && silence.hasPassed() && isAskedFor)
        status = makeError(Code::Closed, "the server does not answer any more");
      if (!isPatient && (!isSilent || silence.hasPassed())) {
        isAskedFor = isSilent;
        silence = Deadline::after(patience);
        if (isAskedFor && status.code() != Code::Closed)
          sendSmall(FrameKind::Ping, 0, 0, Buffer());
      }
      lock.lock();
      if (!status && status.code() != Code::DeadlineExceeded)
        breakWith(status, lock);
      passReaderRole(lock);
      if (!slot.answered && status_ && deadline.hasPassed())
        break;
      continue;
    }
    if (deadline.hasPassed())
      break;
    slot.waiting = true;
    waitFor(slot.wake, lock, deadline);
    slot.waiting = false;
  }
  slot.awaiting = 0;
  lock.unlock();
  sendSmall(FrameKind::Cancel, slot.id, request, Buffer());
  return sent ? makeError(Code::DeadlineExceeded, "no answer in time") : sent;
}

Expected<Metadata> Connection::statistics(Deadline deadline) {
  StreamSlot slot; // number 0, the connection itself
  uint64_t request;
  {
    const Lock lock(mutex_);
    if (!streams_.emplace(0, &slot).second)
      return makeError(Code::Busy, "another thread is already asking for the server's statistics");
    request = ++lastStatistics_;
  }
  uint8_t bytes[FrameHeaderSize];
  encode({FrameKind::Statistics, 0, request, wireTime(deadline)}, bytes);
  const iovec part{bytes, sizeof bytes};
  bool sent;
  const Status status = exchange(slot, request, &part, 1, deadline, sent);
  {
    const Lock lock(mutex_);
    streams_.erase(0);
  }
  if (!status)
    return status;
  Expected<StatisticsMessage> counts = decode<StatisticsMessage>(slot.reply.span());
  return counts ? Expected<Metadata>(std::move(counts->entries)) : counts.status();
}

} // namespace mlbridge
