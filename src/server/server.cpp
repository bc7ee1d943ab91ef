// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "server/loop.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <new>

namespace mlbridge {

Server::Server(std::shared_ptr<State> state) : state_(std::move(state)) {}
Server::Server(Server &&) noexcept = default;
Server::~Server() {
  if (state_) // events may outlive it
    state_->loop.close();
}

Expected<Server> Server::listen(std::string_view uri, ServerOptions options) {
  Expected<Uri> parsed = Uri::parse(uri);
  if (!parsed)
    return parsed.status();
  if (options.environment && !options.signature && options.agents.empty())
    return Status(Code::InvalidArgument,
                  "an environment can only be served with its signature or its agents");
  if (options.signature && !options.agents.empty())
    return Status(Code::InvalidArgument, "a server has a signature or several agents, not both");
  if (options.signature)
    if (Status s = options.signature->check(); !s)
      return s;
  if (Status s = checkAgents(options.agents); !s)
    return s;
  Expected<const Transport *> transport = transportFor(parsed->scheme);
  if (!transport)
    return transport.status();
  ChosenSerDes messages;
  if (parsed->options.count("proto")) {
    Expected<ChosenSerDes> chosen = serdesOf(*parsed);
    if (!chosen)
      return chosen.status();
    messages = std::move(*chosen);
    if (options.signature) { // told now rather than to the first compiler
      if (auto inputs = messages.serdes->newCodec(Side::Inputs, options.signature->inputs); !inputs)
        return inputs.status();
      if (auto outputs = messages.serdes->newCodec(Side::Outputs, options.signature->outputs);
          !outputs)
        return outputs.status();
    }
  }
  Uri address = *parsed; // as the transport sees it
  if (messages.hasMessages)
    for (auto it = address.options.begin(); it != address.options.end();)
      it = isSerDesOption(it->first) ? address.options.erase(it) : std::next(it);
  for (const auto &[key, value] : address.options)
    if (!(*transport)->understands(key))
      return Status(Code::InvalidArgument,
                    std::string(uri) + ": a server's address takes no option '" + key + "'");
  Expected<std::unique_ptr<Listener>> listener = (*transport)->listen(address);
  if (!listener)
    return listener.status();
  auto state = std::make_shared<State>();
  state->uri = std::string(uri);
  if (std::string place = (*listener)->place(); !place.empty()) {
    parsed->place = std::move(place);
    state->uri = parsed->toString();
  }
  options.maxMessage = std::min(options.maxMessage, options.maxConnectionMemory);
  options.handshakeTime =
      std::clamp<Duration>(options.handshakeTime, Duration::zero(), std::chrono::hours(24));
  state->options = std::move(options);
  state->messages = std::move(messages);
  if (Status s = state->loop.start(std::move(*listener)); !s)
    return s;
  return Server(std::move(state));
}

const std::string &Server::uri() const { return state_->uri; }
Span<const AgentSpec> Server::agents() const { return state_->options.agents; }

Expected<Event> Server::next(Deadline deadline) { return next(deadline, nullptr); }

Expected<Event> Server::nextOfBatch(Duration maxWait) {
  const Duration gone = Deadline::Clock::now() - state_->batchBegan;
  return next(Deadline::after(maxWait - gone), &maxWait);
}

/// `patience`: of the batch for which the event is.
Expected<Event> Server::next(Deadline deadline, const Duration *patience) {
  State &s = *state_;
  s.loop.policyEnds();
  Expected<Event> event = await(deadline, patience);
  // Whatever the caller does now may take long.
  if (!event || !isAsked(event->kind()))
    s.loop.policyBegins(Deadline::Clock::now());
  return event;
}

/// With the mutex held: the next event, or null if nobody waits for its answer any more.
std::unique_ptr<Event::State> Server::State::takeNext(Deadline::Clock::time_point now) {
  std::unique_ptr<Event::State> event =
      spareEvent ? std::move(spareEvent) : std::make_unique<Event::State>();
  event->event = takeEvent();
  QueuedEvent &next = event->event;
  ServerStream &stream = *next.stream;
  if (isAsked(next.kind)) {
    if (next.session->takeCancelled(stream, next.request) || next.deadline.when() <= now) {
      ++statistics.dropped;
      next.session->pace.answered(now);
      if (next.inputs && !stream.over && next.session->maySpare())
        stream.spareInputs = std::move(next.inputs);
      next = QueuedEvent();
      spareEvent = std::move(event);
      return nullptr;
    }
    event->outputs = std::move(stream.spareOutputs);
  }
  if (next.kind == EventKind::Reset || next.kind == EventKind::EpisodeBegin) {
    stream.step = 0;
    stream.context = std::move(next.context);
  }
  next.context = stream.context;
  event->step = stream.step;
  return event;
}

Expected<Event> Server::await(Deadline deadline, const Duration *patience) {
  State &s = *state_;
  bool looked = false, isLate = false;
  Deadline wait = deadline;
  ServerLoop::Others others = ServerLoop::Others::Awaited;
  while (true) {
    std::unique_ptr<Event::State> event;
    Deadline::Clock::time_point now;
    {
      const std::lock_guard<std::mutex> lock(s.mutex);
      if (const int64_t until = s.drainUntil.load(std::memory_order_relaxed);
          until != 0 && !s.stopped.load(std::memory_order_relaxed)) {
        const Deadline end = Deadline::at(Deadline::Clock::time_point(Duration(until)));
        if (s.loop.drain() || end.hasPassed())
          s.stopped.store(true, std::memory_order_relaxed);
        wait = earlier(deadline, end);
      }
      if (s.stopped.load(std::memory_order_relaxed))
        return Status(Code::Cancelled, "the server was stopped");
      s.isGathering = false;
      if (!s.hasEvents() && patience) {
        s.patience = *patience;
        others = s.loop.others();
        if (others == ServerLoop::Others::Awaited && deadline.hasPassed())
          others = ServerLoop::Others::Able;
        s.isGathering = others == ServerLoop::Others::Awaited;
        if (!s.isGathering && (looked || others == ServerLoop::Others::None))
          return Status(Code::DeadlineExceeded, "the batch is complete");
      }
      if (s.hasEvents()) {
        now = looked ? s.now : Deadline::Clock::now();
        event = s.takeNext(now);
        if (!event)
          continue;
      } else if (isLate) {
        return Status(Code::DeadlineExceeded, "no request in time");
      }
    }
    if (!event) {
      looked = true;
      switch (others == ServerLoop::Others::Awaited ? s.loop.wait(wait) : s.loop.poll()) {
      case ServerLoop::Outcome::Progress: // of others, perhaps
        isLate = deadline.hasPassed();
        continue;
      case ServerLoop::Outcome::Woken:
        return Status(Code::Cancelled,
                      s.stopped ? "the server was stopped" : "the server was woken");
      case ServerLoop::Outcome::Interrupted:
        return Status(Code::Cancelled, "interrupted by a signal");
      case ServerLoop::Outcome::TimedOut:
        if (patience && others == ServerLoop::Others::Able)
          continue;
        if (!deadline.hasPassed()) // the end of draining came first
          continue;
        if (patience) {
          const std::lock_guard<std::mutex> lock(s.mutex);
          s.loop.recordBatchTimeout();
        }
        return Status(Code::DeadlineExceeded, "no request in time");
      }
    }
    if (!patience)
      s.batchBegan = now;
    event->server = state_;
    Event result(std::move(event));
    if (!isAsked(result.kind()))
      return result;
    result.state_->open = true;
    Status ready;
    try {
      ready = result.state_->takeIn();
      if (ready.ok())
        ready = result.state_->prepareOutputs();
    } catch (const std::bad_alloc &) {
      ready = Status(Code::LimitExceeded, "the server has no memory for this request");
    }
    if (!ready) {
      (void)result.fail(ready);
      continue;
    }
    s.loop.requestBegins(now);
    return result;
  }
}

void Server::stop() {
  state_->stopped.store(true, std::memory_order_relaxed);
  state_->loop.wake();
}

void Server::drain(Duration most) {
  constexpr Duration Longest = std::chrono::hours(24);
  const Deadline end = Deadline::after(std::min(most, Longest));
  int64_t none = 0;
  state_->drainUntil.compare_exchange_strong(none, Duration(end.when().time_since_epoch()).count());
  state_->loop.wake();
}

bool Server::isStopped() const { return state_->stopped; }
int Server::wakeDescriptor() const { return state_->loop.wakeDescriptor(); }

void Server::noteBatch(uint64_t requests) {
  const std::lock_guard<std::mutex> lock(state_->mutex);
  ServerStatistics &counts = state_->statistics;
  ++counts.batches;
  counts.batchedRequests += requests;
  counts.largestBatch = std::max(counts.largestBatch, requests);
}

ServerStatistics Server::statistics() const {
  const std::lock_guard<std::mutex> lock(state_->mutex);
  return state_->statisticsNow();
}

void LatencyHistogram::add(Duration latency) {
  const double microseconds = std::max<double>(static_cast<double>(latency.count()) / 1e3, 1);
  const size_t bucket = static_cast<size_t>(std::log2(microseconds) * BucketsOfOctave);
  ++buckets_[std::min(bucket, buckets_.size() - 1)];
  ++count_;
}

Duration LatencyHistogram::quantile(double fraction) const {
  const double wanted = std::clamp(fraction, 0.0, 1.0) * static_cast<double>(count_);
  uint64_t seen = 0;
  for (size_t bucket = 0; bucket < buckets_.size(); ++bucket) {
    seen += buckets_[bucket];
    if (seen && static_cast<double>(seen) >= wanted)
      return Duration(int64_t(1e3 * std::exp2(static_cast<double>(bucket + 1) / BucketsOfOctave)));
  }
  return Duration::zero();
}

Metadata ServerStatistics::toMetadata() const {
  Metadata values = {{"connections", std::to_string(connections)},
                     {"streams", std::to_string(streams)},
                     {"requests", std::to_string(requests)},
                     {"replies", std::to_string(replies)},
                     {"errors", std::to_string(errors)},
                     {"dropped", std::to_string(dropped)},
                     {"refused", std::to_string(refused)},
                     {"bytes-in", std::to_string(bytesIn)},
                     {"bytes-out", std::to_string(bytesOut)},
                     {"over-limit", std::to_string(overLimit)},
                     {"events-dropped", std::to_string(eventsDropped)},
                     {"bytes-kept", std::to_string(bytesKept)}};
  if (batches) {
    char mean[32];
    std::snprintf(mean, sizeof mean, "%.2f",
                  static_cast<double>(batchedRequests) / static_cast<double>(batches));
    values["batches"] = std::to_string(batches);
    values["batch-mean"] = mean;
    values["batch-max"] = std::to_string(largestBatch);
  }
  constexpr std::pair<const char *, double> Quantiles[] = {{"latency-p50-us", 0.5},
                                                           {"latency-p90-us", 0.9},
                                                           {"latency-p99-us", 0.99},
                                                           {"latency-max-us", 1.0}};
  for (const auto &[name, fraction] : Quantiles)
    values[name] = std::to_string(latency.quantile(fraction).count() / 1000);
  return values;
}

} // namespace mlbridge
