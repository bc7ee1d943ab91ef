// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The messages that a session sends. Nothing blocks: bytes that the channel does not take wait.
#include "server/session.h"

#include <algorithm>

namespace mlbridge {

namespace {

// Messages that a peer gets at no cost may wait in far smaller numbers than replies.
constexpr uint64_t MostUnsentControl = 8 << 20;

bool isControl(FrameKind kind) {
  return kind == FrameKind::Welcome || kind == FrameKind::Pong || kind == FrameKind::Statistics ||
         kind == FrameKind::Error;
}

} // namespace

void Session::refuse(const Status &why) {
  ++host_.statistics.refused;
  if (why.code() == Code::Busy && !handshakeDone_)
    (void)sendMessage(FrameKind::Busy, 0, 0, BusyMessage{0, why.message()});
  else
    (void)sendError(0, 0, why);
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
  if (!closed_ && handshakeDone_)
    (void)sendMessage(FrameKind::Bye, 0, 0, ByeMessage{std::string(text)});
  close(Status(Code::Cancelled, "the server stopped"));
}

bool Session::mayLeave() const {
  if (!events_.empty() || pace.open() != 0 || hasUnsent())
    return false;
  return host_.options.stateless ||
         std::none_of(streams_.begin(), streams_.end(),
                      [](const auto &entry) { return entry.second->inEpisode; });
}

std::shared_ptr<ServerStream> Session::streamOf(std::string_view agent) const {
  for (const auto &[id, stream] : streams_)
    if (stream->context->agent == agent)
      return stream;
  return nullptr;
}

Status Session::decline(uint32_t stream, uint64_t request, const Status &why) {
  ++host_.statistics.refused;
  (void)sendError(stream, request, why);
  return Status();
}

Status Session::sendFrame(FrameKind kind, uint32_t stream, uint64_t request, Buffer &frame,
                          uint16_t flags) {
  const FrameHeader header{kind,       stream, request,
                           NoDeadline, flags,  frame.size() - FrameHeaderSize};
  if (peerLimit_ && header.length > peerLimit_)
    return Status(Code::LimitExceeded, "the answer has " + std::to_string(header.length) +
                                           " bytes, the compiler accepts at most " +
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
    const Status why(Code::Closed, "the compiler does not read its replies: " +
                                       std::to_string(unsent_.size()) + " bytes are waiting");
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

void Session::push(QueuedEvent &&event) {
  if (isAsked(event.kind)) {
    host_.queuedBytes += event.inputs ? event.inputs->message.size() : 0;
    ++host_.queuedRequests;
    ++queuedRequests_;
  }
  if (!event.inputs)
    event.charge.set(account_, event.charge.bytes() + CostOfEvent);
  if (spare_.empty())
    spare_.emplace_back();
  spare_.front() = std::move(event);
  events_.splice(events_.end(), spare_);
  if (events_.size() == 1)
    host_.waiting.push_back(shared_from_this());
}

/// Queues an event that takes no answer: the oldest of its stream gives way.
void Session::pushEpisode(QueuedEvent &&event) {
  const std::shared_ptr<ServerStream> stream = event.stream;
  push(std::move(event));
  stream->events.push_back(std::prev(events_.end()));
  if (stream->events.size() <= std::max<size_t>(host_.options.maxEvents, 1))
    return;
  const QueuedEvent oldest = extract(stream->events.front());
  if (oldest.context) // it has begun, though nobody is told
    stream->context = oldest.context;
  ++host_.statistics.eventsDropped;
}

QueuedEvent Session::extract(std::list<QueuedEvent>::iterator at) {
  QueuedEvent event = std::move(*at);
  if (isAsked(event.kind)) {
    host_.queuedBytes -= event.inputs ? event.inputs->message.size() : 0;
    --host_.queuedRequests;
    --queuedRequests_;
  } else {
    auto &events = event.stream->events;
    events.erase(std::find(events.begin(), events.end(), at)); // the first, if all goes
  }
  spare_.clear();
  spare_.splice(spare_.end(), events_, at);
  event.charge.set(0);
  return event;
}

QueuedEvent Session::takeEvent() { return extract(events_.begin()); }

QueuedEvent SessionHost::takeEvent() {
  const std::shared_ptr<Session> session = std::move(waiting.front());
  waiting.pop_front();
  QueuedEvent event = session->takeEvent();
  event.session = session;
  if (session->hasEvents())
    waiting.push_back(session);
  return event;
}

void Session::forget(bool everything) {
  const bool waited = !events_.empty();
  for (auto at = events_.begin(); at != events_.end();) {
    const auto next = std::next(at);
    if (isAsked(at->kind)) {
      ++host_.statistics.dropped;
      (void)extract(at);
    } else if (everything) {
      ++host_.statistics.eventsDropped;
      (void)extract(at);
    }
    at = next;
  }
  if (waited && events_.empty()) {
    auto &waiting = host_.waiting;
    waiting.erase(std::find(waiting.begin(), waiting.end(), shared_from_this()));
  }
}

/// The context once all that waits has had its turn.
const std::shared_ptr<const CallContext> &Session::lastContext(const ServerStream &stream) {
  for (auto at = stream.events.rbegin(); at != stream.events.rend(); ++at)
    if ((*at)->context)
      return (*at)->context;
  return stream.context;
}

void Session::endStream(ServerStream &stream, const Status &why) {
  // An environment is also told when its driver leaves between episodes.
  if (!stream.inEpisode && !host_.options.environment)
    return;
  if (const std::shared_ptr<ServerStream> driver = host_.driver.lock();
      driver && driver->inEpisode && driver.get() != &stream && find(driver->id) != driver.get())
    return; // another one drives
  // An environment is told once only that its driver leaves between episodes.
  if (!stream.inEpisode && !events_.empty() && events_.back().kind == EventKind::EpisodeEnd)
    return;
  stream.inEpisode = false;
  QueuedEvent event;
  event.kind = EventKind::EpisodeEnd;
  event.stream = streams_[stream.id];
  event.outcome = why;
  pushEpisode(std::move(event));
}

void Session::endAllStreams(const Status &why) {
  for (auto &[id, stream] : streams_) {
    endStream(*stream, why);
    stream->over = true;
  }
  lastFound_ = nullptr;
  streams_.clear();
  cancelled_.clear();
}

} // namespace mlbridge
