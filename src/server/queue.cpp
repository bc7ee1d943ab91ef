// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What waits for the policy: each session has a queue of its own, and they take turns.
#include "server/session.h"

#include <algorithm>

namespace mlbridge {

void Session::push(QueuedEvent event) {
  if (isAsked(event.kind)) {
    host_.queuedBytes += event.inputs ? event.inputs->message.size() : 0;
    ++host_.queuedRequests;
    ++queuedRequests_;
  }
  constexpr uint64_t CostOfEvent = sizeof(QueuedEvent) + 64;
  event.charge.set(account_, event.charge.bytes() + CostOfEvent);
  events_.push_back(std::move(event));
  if (events_.size() == 1)
    host_.waiting.push_back(shared_from_this());
}

/// What takes no answer: the oldest of its stream gives way.
void Session::pushEpisode(QueuedEvent event) {
  const std::shared_ptr<ServerStream> stream = event.stream;
  push(std::move(event));
  stream->events.push_back(std::prev(events_.end()));
  if (stream->events.size() <= std::max<size_t>(host_.options.maxEvents, 1))
    return;
  const QueuedEvent oldest = extract(stream->events.front());
  if (oldest.texts) // it has begun, though nobody is told
    stream->texts = oldest.texts;
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
  events_.erase(at);
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

/// Those that count once all that waits has had its turn.
const std::shared_ptr<const StreamTexts> &Session::lastTexts(const ServerStream &stream) {
  for (auto at = stream.events.rbegin(); at != stream.events.rend(); ++at)
    if ((*at)->texts)
      return (*at)->texts;
  return stream.texts;
}

void Session::endStream(ServerStream &stream, const Status &why) {
  // An environment is also told when its driver leaves between episodes.
  if (!stream.inEpisode && !host_.options.environment)
    return;
  if (const std::shared_ptr<ServerStream> driver = host_.driver.lock();
      driver && driver->inEpisode && driver.get() != &stream && find(driver->id) != driver.get())
    return; // another one drives
  // That it leaves between episodes, once is enough.
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
