// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <mlbridge/server.h>

#include "server/loop.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>

namespace mlbridge {

struct Server::State : SessionHost {
  std::string uri;
  std::atomic<bool> stopped{false};
  std::unique_ptr<Event::State> spareEvent; ///< guarded by the mutex
  ServerLoop loop{*this};                   // last: its end says goodbye with the rest still there
};

struct Event::State : TensorSink {
  std::shared_ptr<Server::State> server;
  QueuedEvent event;
  std::unique_ptr<OutputStorage> outputs;
  RequestContext context;
  bool open = false; ///< a request that has not been answered
  bool done = false; ///< the answer ends the episode
  bool truncated = false;
  TurnMessage turn; ///< of an environment with several agents
  /// Whose observation it is, if not that of the agent that acted.
  std::shared_ptr<ServerStream> answering;

  ServerStream &stream() const { return *event.stream; }
  ServerStream &target() const { return answering ? *answering : *event.stream; }
  bool hasAgents() const { return !server->options.agents.empty(); }

  Status takeIn();
  Status takeInFromMemory();
  Status keepHeld();
  Status prepareOutputs();
  Expected<TensorView> prepare(size_t index, Span<const int64_t> shape) override;
  bool adopt(size_t index, Span<const int64_t> shape, const uint8_t *data) override;
  void place(size_t index, Span<const int64_t> shape, void *data, size_t count);
  Status answer(Status (*send)(State &));
  Status sendTurn();
  void endEpisode();
  void release();
};

// ---- Event --------------------------------------------------------------------------------------

Event::Event() = default;
Event::Event(std::unique_ptr<State> state) : state_(std::move(state)) {}
Event::Event(Event &&other) noexcept = default;
Event &Event::operator=(Event &&other) noexcept {
  Event old(std::move(*this));
  state_ = std::move(other.state_);
  return *this;
}

Event::~Event() {
  if (!state_)
    return;
  if (state_->open)
    (void)fail(Status(Code::PolicyFailed, "the policy gave no answer"));
  const std::shared_ptr<Server::State> server = std::move(state_->server);
  const std::lock_guard<std::mutex> lock(server->mutex);
  state_->release();
  if (!server->spareEvent)
    server->spareEvent = std::move(state_);
}

/// Makes the inputs readable. Runs without the server's mutex: the storage is this event's alone.
Status Event::State::takeIn() {
  if (!event.inputs) // Reset
    return Status::ok();
  ServerStream &s = stream();
  InputStorage &in = *event.inputs;
  if (in.inMemory)
    return takeInFromMemory();
  if (const Codec::Layout *layout = s.inputs->layout()) {
    if (in.message.size() != layout->size)
      return Status(Code::Protocol, "the request has " + std::to_string(in.message.size()) +
                                        " bytes, " + std::to_string(layout->size) +
                                        " were expected");
    return s.inputs->check(in.message.span());
  }
  const size_t count = s.signature.inputs.size();
  in.tensors.resize(count);
  in.views.resize(count);
  in.shapes.resize(count);
  return s.inputs->decode(in.message.span(), *this);
}

/// The same of a request whose large tensors lie in memory that the compiler can change at any
/// time: all that says where and how long they are is read from the frame.
Status Event::State::takeInFromMemory() {
  InputStorage &in = *event.inputs;
  const Span<const uint8_t> frame = in.message.span();
  uint64_t count = 0;
  if (frame.size() >= sizeof count)
    std::memcpy(&count, frame.data(), sizeof count);
  if (!in.arena || count == 0 || count > (frame.size() - sizeof count) / sizeof(MemoryPlace))
    return Status(Code::Protocol, "the request has " + std::to_string(frame.size()) +
                                      " bytes, which say that " + std::to_string(count) +
                                      " tensors lie in shared memory");
  const size_t begin = sizeof count + count * sizeof(MemoryPlace);
  const Span<const uint8_t> message(frame.data() + begin, frame.size() - begin);
  std::vector<Codec::Gap> gaps(count);
  std::vector<std::shared_ptr<ArenaView>> mapped(count);
  uint64_t total = message.size();
  for (size_t i = 0; i < count; ++i) {
    MemoryPlace place;
    std::memcpy(&place, frame.data() + sizeof count + i * sizeof place, sizeof place);
    if (place.bytes == 0 || place.bytes > place.capacity)
      return Status(Code::Protocol, "a tensor of " + std::to_string(place.bytes) +
                                        " bytes in a part of " + std::to_string(place.capacity) +
                                        " bytes of the shared memory");
    const uint64_t limit = server->options.maxMessage;
    total += std::min<uint64_t>(place.bytes, limit); // no overflow
    if (place.bytes > limit || total > limit)
      return Status(Code::LimitExceeded, "the tensors in shared memory are larger than the limit "
                                         "of " +
                                             std::to_string(limit) + " bytes");
    for (const std::shared_ptr<ArenaView> &known : in.mapped)
      if (known->offset() == place.offset && known->capacity() == place.capacity)
        mapped[i] = known;
    if (!mapped[i]) {
      Expected<std::shared_ptr<ArenaView>> fresh = in.arena->view(place.offset, place.capacity);
      if (!fresh)
        return fresh.status();
      mapped[i] = std::move(*fresh);
    }
    gaps[i] = {place.position, mapped[i]->data(), place.bytes};
  }
  in.mapped = std::move(mapped);
  const size_t inputs = stream().signature.inputs.size();
  in.tensors.resize(inputs);
  in.views.resize(inputs);
  in.shapes.resize(inputs);
  return stream().inputs->decodeAround(message, gaps, *this);
}

/// Before the compiler may write again: what somebody holds stays as it is.
Status Event::State::keepHeld() {
  if (!event.inputs || !event.inputs->inMemory || event.inputs.use_count() == 1)
    return Status::ok();
  for (const std::shared_ptr<ArenaView> &part : event.inputs->mapped)
    if (!part->isKept())
      if (Status s = part->keep(); !s)
        return s;
  return Status::ok();
}

Expected<TensorView> Event::State::prepare(size_t index, Span<const int64_t> shape) {
  Tensor &tensor = event.inputs->tensors[index];
  if (Status s = tensor.reshape(stream().signature.inputs[index], shape); !s)
    return s;
  place(index, shape, tensor.view().data, tensor.count());
  return tensor.view();
}

bool Event::State::adopt(size_t index, Span<const int64_t> shape, const uint8_t *data) {
  if (!checkShape(stream().signature.inputs[index], shape))
    return false; // prepare says why
  place(index, shape, const_cast<uint8_t *>(data), *elementCount(shape));
  return true;
}

/// Notes where input `index` lies, and whether that is somewhere else than last time.
void Event::State::place(size_t index, Span<const int64_t> shape, void *data, size_t count) {
  InputStorage &in = *event.inputs;
  TensorView &view = in.views[index];
  Shape &known = in.shapes[index];
  if (view.data != data || !std::equal(shape.begin(), shape.end(), known.begin(), known.end())) {
    static std::atomic<uint64_t> changes{uint64_t(1) << 63};
    in.id = ++changes;
    known.assign(shape.begin(), shape.end());
  }
  view = {stream().signature.inputs[index].type, data, count, known};
}

Status Event::State::prepareOutputs() {
  ServerStream &s = target();
  if (!outputs)
    outputs = std::make_unique<OutputStorage>();
  if (const Codec::Layout *layout = s.outputs->layout()) {
    if (Status status = outputs->frame.resize(FrameHeaderSize + layout->size); !status)
      return status;
    std::memset(outputs->frame.data(), 0, outputs->frame.size());
    return Status::ok();
  }
  outputs->tensors.resize(s.signature.outputs.size());
  for (size_t i = 0; i < outputs->tensors.size(); ++i) {
    const TensorSpec &spec = s.signature.outputs[i];
    if (spec.isDynamic()) {
      outputs->tensors[i] = Tensor();
    } else if (outputs->tensors[i].spec() == spec) {
      const TensorView known = outputs->tensors[i].view();
      if (known.bytes())
        std::memset(known.data, 0, known.bytes());
      for (std::string &s : known.as<std::string>())
        s.clear();
    } else {
      Expected<Tensor> fresh = Tensor::make(spec, spec.shape);
      if (!fresh)
        return fresh.status();
      outputs->tensors[i] = std::move(*fresh);
    }
  }
  return Status::ok();
}

Status Event::State::answer(Status (*send)(State &)) {
  if (!open)
    return Status(Code::InvalidArgument, isAsked(event.kind)
                                             ? "the request has been answered already"
                                             : "this event takes no answer");
  const Status kept = keepHeld();
  const std::lock_guard<std::mutex> lock(server->mutex);
  open = false;
  if (event.session->takeCancelled(*event.stream, event.request)) {
    ++server->statistics.dropped;
    return Status(Code::Closed, "the compiler no longer waits for this answer");
  }
  Status status =
      kept ? send(*this) : event.session->sendError(event.stream->id, event.request, kept);
  server->loop.update(*event.session);
  return status;
}

/// With the server's mutex held: gives the storage back to the stream, unless somebody holds the
/// inputs.
void Event::State::release() {
  if (event.stream) {
    const bool isKept =
        event.inputs && !event.inputs->mapped.empty() && event.inputs->mapped.front()->isKept();
    if (event.inputs && event.inputs.use_count() == 1 && !isKept && !event.stream->spareInputs)
      event.stream->spareInputs = std::move(event.inputs);
    if (outputs && !target().spareOutputs)
      target().spareOutputs = std::move(outputs);
  }
  outputs.reset();
  answering.reset();
  done = truncated = false;
  turn.agent = TurnMessage::Nobody;
  turn.rewards.clear();
  event = QueuedEvent();
  context = RequestContext();
}

EventKind Event::kind() const { return state_ ? state_->event.kind : EventKind::Request; }
uint64_t Event::seed() const { return state_ ? state_->event.seed : 0; }
double Event::reward() const { return state_ ? state_->event.reward : 0; }

const RequestContext &Event::context() const {
  static const RequestContext none;
  return state_ ? state_->context : none;
}

const Status &Event::outcome() const {
  static const Status ok;
  return state_ ? state_->event.outcome : ok;
}

const Signature &Event::signature() const {
  static const Signature none;
  return state_ ? state_->stream().signature : none;
}

TensorView Event::input(size_t index) const {
  if (!state_ || !state_->event.inputs || index >= signature().inputs.size())
    return {};
  InputStorage &in = *state_->event.inputs;
  if (!in.inMemory && state_->stream().inputs->layout())
    return viewInMessage(signature().inputs[index], *state_->stream().inputs, index,
                         in.message.data());
  return in.views[index];
}

const Signature &Event::answerSignature() const {
  return state_ ? state_->target().signature : signature();
}

bool Event::isTruncated() const { return state_ && state_->event.truncated; }

Status Event::setAgent(size_t agent) {
  if (!state_ || !state_->open || (kind() != EventKind::Reset && kind() != EventKind::Step) ||
      !state_->hasAgents())
    return Status(Code::InvalidArgument,
                  "only a reset or step of an environment with several agents says who acts next");
  State &s = *state_;
  const std::vector<AgentSpec> &agents = s.server->options.agents;
  if (agent >= agents.size())
    return Status(Code::InvalidArgument, "there is no agent number " + std::to_string(agent) +
                                             " of " + std::to_string(agents.size()));
  s.turn.agent = static_cast<uint32_t>(agent);
  {
    const std::lock_guard<std::mutex> lock(s.server->mutex);
    std::shared_ptr<ServerStream> stream = s.event.session->streamOf(agents[agent].name);
    if (!stream)
      return Status(Code::InvalidArgument,
                    "the driver has no stream for agent '" + agents[agent].name + "'");
    if (stream.get() == &s.target())
      return Status::ok();
    if (s.outputs && !s.target().spareOutputs)
      s.target().spareOutputs = std::move(s.outputs);
    s.outputs = std::move(stream->spareOutputs);
    s.answering = std::move(stream);
  }
  return s.prepareOutputs();
}

TensorView Event::output(size_t index) {
  if (!state_ || !state_->open || index >= answerSignature().outputs.size())
    return {};
  if (state_->target().outputs->layout())
    return viewInMessage(answerSignature().outputs[index], *state_->target().outputs, index,
                         state_->outputs->frame.data() + FrameHeaderSize);
  return state_->outputs->tensors[index].view();
}

Expected<TensorView> Event::resizeOutput(size_t index, Span<const int64_t> shape) {
  if (!state_ || !state_->open || index >= answerSignature().outputs.size())
    return Status(Code::InvalidArgument, "there is no output number " + std::to_string(index));
  const TensorSpec &spec = answerSignature().outputs[index];
  if (Status s = checkShape(spec, shape); !s)
    return s;
  if (state_->target().outputs->layout())
    return output(index);
  Tensor &tensor = state_->outputs->tensors[index];
  if (Status s = tensor.reshape(spec, shape); !s)
    return s;
  return tensor.view();
}

std::shared_ptr<void> Event::holdInputs() const {
  return state_ ? std::shared_ptr<void>(state_->event.inputs) : nullptr;
}

uint64_t Event::storage() const {
  return state_ && state_->event.inputs ? state_->event.inputs->id : 0;
}

static Status noReward() {
  return Status(Code::InvalidArgument, "only a reset or step is answered with a reward");
}

Status Event::reply(double reward, bool done, bool truncated) {
  if (!state_ || (kind() != EventKind::Reset && kind() != EventKind::Step))
    return noReward();
  if (state_->hasAgents())
    return Status(Code::InvalidArgument,
                  "an environment of several agents answers with a reward for each");
  state_->event.reward = reward;
  state_->done = done;
  state_->truncated = truncated;
  return reply();
}

Status Event::reply(Span<const double> rewards, bool done, bool truncated) {
  if (!state_ || (kind() != EventKind::Reset && kind() != EventKind::Step))
    return noReward();
  if (!state_->hasAgents() || rewards.size() != state_->server->options.agents.size())
    return Status(Code::InvalidArgument, std::to_string(rewards.size()) + " rewards for the " +
                                             std::to_string(state_->server->options.agents.size()) +
                                             " agents that the server was made with");
  state_->turn.rewards.assign(rewards.begin(), rewards.end());
  state_->done = done;
  state_->truncated = truncated;
  return reply();
}

/// What an environment says before its answer.
Status Event::State::sendTurn() {
  if (event.kind == EventKind::Request)
    return Status::ok();
  if (!hasAgents())
    return event.kind == EventKind::Step ? event.session->sendReward(stream().id, event.reward)
                                         : Status::ok();
  const std::vector<AgentSpec> &agents = server->options.agents;
  turn.rewards.resize(agents.size());
  if (done)
    turn.agent = TurnMessage::Nobody;
  else if (turn.agent == TurnMessage::Nobody)
    turn.agent = static_cast<uint32_t>(findAgent(agents, stream().agent));
  return event.session->sendTurn(stream().id, turn);
}

/// An episode has ended, and another driver may come.
void Event::State::endEpisode() {
  stream().inEpisode = false;
  if (const std::shared_ptr<ServerStream> driver = server->driver.lock())
    driver->inEpisode = false;
}

Status Event::reply() {
  if (!state_)
    return Status(Code::InvalidArgument, "an empty event takes no answer");
  return state_->answer([](State &state) {
    ServerStream &stream = state.stream(), &target = state.target();
    Buffer &frame = state.outputs->frame;
    Status status;
    if (state.done) {
      status = frame.resize(FrameHeaderSize);
    } else if (!target.outputs->layout()) {
      std::vector<TensorView> views;
      for (size_t i = 0; i < state.outputs->tensors.size(); ++i) {
        Tensor &tensor = state.outputs->tensors[i];
        if (status.isOk() && tensor.spec().name.empty())
          status = Status(Code::PolicyFailed, "the policy gave no shape to output '" +
                                                  target.signature.outputs[i].name + "'");
        views.push_back(tensor.view());
      }
      if (status.isOk())
        status = frame.resize(FrameHeaderSize);
      if (status.isOk())
        status = target.outputs->encode(views, frame);
    }
    if (status.isOk())
      status = state.sendTurn();
    const uint16_t flags = state.done ? FlagDone | (state.truncated ? FlagTruncated : 0) : 0;
    if (status.isOk())
      status = state.event.session->sendFrame(FrameKind::Reply, stream.id, state.event.request,
                                              frame, flags);
    if (status.isOk()) {
      if (state.done)
        state.endEpisode();
      ++state.server->statistics.replies;
      state.server->statistics.latency.add(Deadline::Clock::now() - state.event.arrived);
      ++stream.step;
      return status;
    }
    ++state.server->statistics.errors;
    // The compiler must not wait for an answer that cannot be sent.
    (void)state.event.session->sendError(stream.id, state.event.request, status);
    return status;
  });
}

Status Event::fail(const Status &why) {
  if (!state_)
    return Status(Code::InvalidArgument, "an empty event takes no answer");
  state_->event.outcome =
      why.isOk() ? Status(Code::PolicyFailed, "the policy failed without saying why") : why;
  return state_->answer([](State &state) {
    ++state.server->statistics.errors;
    if (state.event.kind != EventKind::Request)
      state.endEpisode();
    return state.event.session->sendError(state.stream().id, state.event.request,
                                          state.event.outcome);
  });
}

// ---- statistics ---------------------------------------------------------------------------------

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
  Metadata values = {
      {"connections", std::to_string(connections)}, {"streams", std::to_string(streams)},
      {"requests", std::to_string(requests)},       {"replies", std::to_string(replies)},
      {"errors", std::to_string(errors)},           {"dropped", std::to_string(dropped)},
      {"refused", std::to_string(refused)},         {"bytes-in", std::to_string(bytesIn)},
      {"bytes-out", std::to_string(bytesOut)}};
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

// ---- Server -------------------------------------------------------------------------------------

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
    return Status(Code::InvalidArgument, "an environment was served without its signature");
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
  state->options = std::move(options);
  state->messages = std::move(messages);
  if (Status s = state->loop.start(std::move(*listener)); !s)
    return s;
  return Server(std::move(state));
}

const std::string &Server::uri() const { return state_->uri; }
Span<const AgentSpec> Server::agents() const { return state_->options.agents; }

Expected<Event> Server::next(Deadline deadline) {
  State &s = *state_;
  s.loop.policyEnds();
  Expected<Event> event = await(deadline);
  // Whatever the caller does now may take long.
  if (!event || !isAsked(event->kind()))
    s.loop.policyBegins(Deadline::Clock::now());
  return event;
}

Expected<Event> Server::await(Deadline deadline) {
  State &s = *state_;
  bool looked = false;
  while (true) {
    std::unique_ptr<Event::State> event;
    Deadline::Clock::time_point now;
    {
      const std::lock_guard<std::mutex> lock(s.mutex);
      if (s.stopped.load(std::memory_order_relaxed))
        return Status(Code::Cancelled, "the server was stopped");
      if (!s.queue.empty()) {
        now = looked ? s.now : Deadline::Clock::now();
        event = s.spareEvent ? std::move(s.spareEvent) : std::make_unique<Event::State>();
        event->event = std::move(s.queue.front());
        s.queue.pop_front();
        ServerStream &stream = *event->event.stream;
        if (isAsked(event->event.kind)) {
          --s.queuedRequests;
          s.queuedBytes -= event->event.inputs ? event->event.inputs->message.size() : 0;
          if (event->event.session->takeCancelled(stream, event->event.request) ||
              event->event.deadline.when() <= now) {
            ++s.statistics.dropped;
            if (event->event.inputs)
              stream.spareInputs = std::move(event->event.inputs);
            event->event = QueuedEvent();
            s.spareEvent = std::move(event);
            continue;
          }
          event->outputs = std::move(stream.spareOutputs);
          if (event->event.kind == EventKind::Reset) {
            stream.step = 0;
            stream.context = std::move(event->event.context);
          }
        } else if (event->event.kind == EventKind::EpisodeBegin) {
          stream.step = 0;
          if (!event->event.episode.empty())
            stream.episode = std::move(event->event.episode);
          if (!event->event.context.empty())
            stream.context = std::move(event->event.context);
        }
        event->context = {stream.episode, stream.context,
                          stream.agent,   event->event.session->number(),
                          stream.id,      stream.step};
      }
    }
    if (!event) {
      looked = true;
      switch (s.loop.wait(deadline)) {
      case ServerLoop::Outcome::Progress:
        continue;
      case ServerLoop::Outcome::Woken:
        return Status(Code::Cancelled,
                      s.stopped ? "the server was stopped" : "the server was woken");
      case ServerLoop::Outcome::Interrupted:
        return Status(Code::Cancelled, "interrupted by a signal");
      case ServerLoop::Outcome::TimedOut:
        return Status(Code::DeadlineExceeded, "no request in time");
      }
    }
    event->server = state_;
    Event result(std::move(event));
    if (!isAsked(result.kind()))
      return result;
    result.state_->open = true;
    Status ready = result.state_->takeIn();
    if (ready.isOk())
      ready = result.state_->prepareOutputs();
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
  return state_->statistics;
}

} // namespace mlbridge
