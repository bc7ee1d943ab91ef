// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The streams of a connection: what comes goes to whom it is for, and who asks waits for it.
#include <poll.h>
#include <sys/random.h>

#include "conversation/connection.h"

#include "core/process.h"

namespace mlbridge {

namespace {

constexpr size_t MostControl = 16 << 20; ///< of a frame that is no answer
constexpr size_t MostPing = 64, MostStatistics = 1 << 20;
/// Of what waits in outboxes: more is not kept for streams that are closed.
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
  const uint64_t most = !shaken_                               ? maxWelcome_
                        : header.kind == FrameKind::Ping       ? MostPing
                        : header.kind == FrameKind::Statistics ? MostStatistics
                        : isLarge                              ? UINT64_MAX
                                                               : MostControl;
  if (Status s = checkLength(header, most, shaken_ ? "" : " ('max-welcome')"); !s)
    return s;
  // Where it belongs is decided when it is complete: its stream may be gone by then.
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
  if (!shaken_)
    return welcomeFrame(header);
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
    return Status(Code::Closed, "the server ended the connection" +
                                    (bye && !bye->text.empty() ? ": " + bye->text : ""));
  }
  case FrameKind::Reset:
  case FrameKind::Step: {
    Buffer text;
    if (Status s = encode(Status(Code::Unsupported, "this compiler cannot be driven"), text); !s)
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
  return Status(
      Code::InvalidArgument,
      "the connection was opened before fork(); open the model again in the child process");
}

Status Connection::exchange(StreamSlot &slot, uint64_t request, const iovec *frames, int count,
                            Deadline deadline, bool &sentAll) {
  sentAll = false;
  if (Status s = checkProcess(); !s)
    return s;
  {
    const Lock lock(mutex_);
    if (!status_)
      return status_;
    if (!slot.refused)
      return slot.refused;
    slot.awaiting = request;
    slot.answered = false;
    slot.reward = 0;
    slot.turn.reset();
  }
  Status sent = send(frames, count, deadline, sentAll);
  Lock lock(mutex_);
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
      Readiness ready;
      const Status status = pumpAs({true, false}, deadline, ready);
      handover_.waited(Deadline::Clock::now());
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
  return sent ? Status(Code::DeadlineExceeded, "no answer in time") : sent;
}

Expected<Metadata> Connection::statistics(Deadline deadline) {
  StreamSlot slot; // number 0, the connection itself
  uint64_t request;
  {
    const Lock lock(mutex_);
    if (!streams_.emplace(0, &slot).second)
      return Status(Code::Busy, "another thread is already asking for the server's statistics");
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

namespace {

// A handshake over FIFOs that gets no answer is tried anew: the first one may have been taken for
// the rest of a frame that an earlier compiler did not finish.
constexpr Duration FirstAttempt = std::chrono::milliseconds(250);
constexpr Duration LongestAttempt = std::chrono::seconds(5);

} // namespace

Expected<std::shared_ptr<Connection>> Connection::open(const Transport &transport, const Uri &uri,
                                                       const Options &options, Deadline deadline) {
  Duration attempt = FirstAttempt;
  while (true) {
    const Deadline::Clock::time_point before = Deadline::Clock::now();
    Expected<std::unique_ptr<Channel>> channel = connectWaiting(
        options.wait, deadline, [&](Deadline until) { return transport.connect(uri, until); });
    if (!channel)
      return channel.status();
    // Waiting for a server to start was asked for; it is not part of the deadline.
    if (options.wait > Duration::zero() && !deadline.isNever())
      deadline = Deadline::after(Deadline::Clock::now() - before, deadline.when());
    std::shared_ptr<Connection> connection(new Connection(std::move(*channel)));
    Status status = connection->shakeHands(
        options, transport.mayBeStale() ? earlier(deadline, Deadline::after(attempt)) : deadline);
    if (status.ok() && connection->welcome_.role != options.role)
      return Status(Code::Mismatch, options.role == ServerRole::Model
                                        ? "an environment is served there: it is driven, not asked"
                                        : "a model is served there: it is asked, not driven");
    if (status.ok())
      return connection;
    const std::string advice = connection->channel_->advice();
    if (status.code() == Code::Protocol && !advice.empty())
      status = status.withContext(advice);
    const bool again = transport.mayBeStale() && !deadline.hasPassed() &&
                       (status.code() == Code::DeadlineExceeded || status.code() == Code::Closed);
    if (!again)
      return status.withContext("handshake");
    if (status.code() == Code::Closed)
      ::poll(nullptr, 0, ConnectPauseMs);
    else
      attempt = std::min(attempt * 2, LongestAttempt);
  }
}

Status Connection::shakeHands(const Options &options, Deadline deadline) {
  if (::getrandom(nonce_.data(), nonce_.size(), 0) != ssize_t(nonce_.size()))
    return Status(Code::Internal, "the system gives no random numbers (getrandom)");
  Hello hello;
  hello.nonce = nonce_;
  hello.maxMessage = options.maxMessage;
  hello.serdes = options.serdes;
  hello.software = softwareName();
  Outbox out;
  if (Status s = out.addMessage({FrameKind::Hello, 0, 0, wireTime(deadline)}, hello); !s)
    return s;
  maxWelcome_ = options.maxWelcome;
  reader_.setLimit(options.maxMessage);
  const iovec part{const_cast<uint8_t *>(out.data()), out.size()};
  bool begun = false;
  if (Status s = send(&part, 1, deadline, begun); !s)
    return s;
  while (!shaken_) {
    Readiness ready;
    Status s = pumpAs({true, false}, deadline, ready);
    if (s && !shaken_ && deadline.hasPassed()) // a server that sends on and on
      s = Status(Code::DeadlineExceeded, "");
    if (!s)
      return s.code() == Code::DeadlineExceeded
                 ? Status(s.code(), "the server did not answer in time")
                 : s;
    if (Status s = failure(); !s)
      return s;
  }
  return Status();
}

Status Connection::welcomeFrame(const FrameHeader &header) {
  switch (header.kind) {
  case FrameKind::Error:
    return header.stream == 0 ? decodeError(incoming_.span()) : Status();
  case FrameKind::Busy:
    return decodeBusy(incoming_.span());
  case FrameKind::Welcome: {
    Expected<Welcome> welcome = decode<Welcome>(incoming_.span());
    if (!welcome)
      return welcome.status();
    if (welcome->major != ProtocolMajor)
      return Status(Code::Protocol, "the server speaks version " + std::to_string(welcome->major) +
                                        " of the protocol, this library speaks version " +
                                        std::to_string(ProtocolMajor));
    if (welcome->nonce != nonce_)
      return Status(); // meant for somebody who was here before
    welcome_ = std::move(*welcome);
    shaken_ = true;
    return Status();
  }
  default:
    return Status(); // the rest of an earlier conversation
  }
}

// ---- sending
// --------------------------------------------------------------------------------------

// One thread at a time writes, and what the server does not take at once goes before whatever is
// sent next.

/// Of a message that had begun to go out: for more the connection is given up.
constexpr size_t MostRest = 16 << 20;

/// `begun`: whether the frames have gone out, or will.
Status Connection::send(const iovec *frames, int count, Deadline deadline, bool &begun) {
  if (Status s = checkProcess(); !s)
    return s;
  Lock lock(mutex_);
  while (writing_) {
    if (!status_)
      return status_;
    waitFor(writable_, lock, deadline);
    if (writing_ && deadline.hasPassed())
      return Status(Code::DeadlineExceeded,
                    "the server did not read another thread's message in time");
  }
  if (!status_)
    return status_;
  writing_ = true;
  Status status = flush(lock, deadline);
  if (status) {
    lock.unlock();
    status = write(frames, count, deadline, begun);
    lock.lock();
    if (!status && status.code() != Code::DeadlineExceeded)
      breakWith(status, lock);
  }
  if (status)
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
  if (outboxes_.empty() && rest_.empty())
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
    Status status = rest_.sendTo(*channel_);
    if (status && rest_.empty())
      status = box.sendTo(*channel_, rest_);
    if (status && rest_.empty() && box.empty())
      return Status();
    if (status && deadline.hasPassed())
      return Status(Code::DeadlineExceeded,
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

Status Connection::write(const iovec *frames, int count, Deadline deadline, bool &begun) {
  iovec parts[MaxParts];
  size_t left = 0;
  for (int i = 0; i < count; ++i) {
    parts[i] = frames[i];
    left += frames[i].iov_len;
  }
  const size_t total = left;
  iovec *at = parts;
  while (true) {
    Expected<size_t> taken = channel_->write(at, count);
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
      status = Status(Code::DeadlineExceeded, "");
    else if (*taken == 0)
      status = awaitRoom(deadline);
    if (status)
      continue;
    if (status.code() != Code::DeadlineExceeded)
      return status;
    const std::string where = "the server read only " + std::to_string(total - left) + " of " +
                              std::to_string(total) + " bytes in time";
    if (begun && left > MostRest)
      return Status(Code::Closed, where + "; the connection was closed");
    const Lock lock(mutex_);
    for (int i = 0; begun && i < count; ++i)
      if (Status s = rest_.add(at[i].iov_base, at[i].iov_len); !s)
        return Status(Code::Closed, where + "; " + s.message());
    return Status(Code::DeadlineExceeded, where);
  }
}

/// The peer may be unable to read on before we have read what it sent.
Status Connection::awaitRoom(Deadline deadline) {
  bool readHere = false;
  {
    const Lock lock(mutex_);
    if (!reading_ && shaken_)
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

/// What a peer that no longer reads said before it went says more than that it went.
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
