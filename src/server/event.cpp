// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "core/message.h"
#include "server/loop.h"

#include <algorithm>
#include <cstring>
#include <new>

namespace mlbridge {

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
    return Status();
  ServerStream &s = stream();
  InputStorage &in = *event.inputs;
  if (in.inMemory)
    return takeInFromMemory();
  if (const Codec::Layout *layout = s.inputs->layout()) {
    if (in.message.size() != layout->size)
      return makeError(Code::Protocol, "the request has ", in.message.size(), " bytes, ",
                       layout->size, " were expected");
    return s.inputs->check(in.message.span());
  }
  in.resize(s.signature.inputs.size());
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
    return makeError(Code::Protocol, "the request has ", frame.size(), " bytes, too few for the ",
                     count, " tensors in shared memory that it states");
  const size_t begin = sizeof count + count * sizeof(MemoryPlace);
  const Span<const uint8_t> message(frame.data() + begin, frame.size() - begin);
  std::vector<Codec::ExternalSpan> external(count);
  std::vector<std::shared_ptr<ArenaView>> mapped(count);
  uint64_t total = message.size();
  for (size_t i = 0; i < count; ++i) {
    MemoryPlace place;
    std::memcpy(&place, frame.data() + sizeof count + i * sizeof place, sizeof place);
    if (place.bytes == 0 || place.bytes > place.capacity)
      return makeError(Code::Protocol, "a tensor of ", place.bytes,
                       " bytes does not fit its part of ", place.capacity,
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
    external[i] = {place.position, mapped[i]->data(), place.bytes};
  }
  in.mapped = std::move(mapped);
  in.charge.set(in.bytes());
  in.resize(stream().signature.inputs.size());
  return stream().inputs->decodeAround(message, external, *this);
}

/// Before the compiler may write again: what somebody holds stays as it is.
Status Event::State::keepHeld() {
  if (!event.inputs || !event.inputs->inMemory || event.inputs.use_count() == 1)
    return Status();
  for (const std::shared_ptr<ArenaView> &part : event.inputs->mapped)
    if (!part->isKept())
      if (Status s = part->keep(); !s)
        return s;
  return Status();
}

Status Event::State::tooLarge(const std::string &what, uint64_t bytes) const {
  return makeError(Code::LimitExceeded, what, bytes, " bytes; the server keeps at most ",
                   server->options.maxConnectionMemory,
                   " for one connection (max_connection_memory)");
}

Expected<TensorView> Event::State::prepare(size_t index, Span<const int64_t> shape) {
  InputStorage &in = *event.inputs;
  const TensorSpec &spec = stream().signature.inputs[index];
  if (Status s = checkShape(spec, shape); !s)
    return s;
  // The bytes of strings lie in the message, and come once more.
  const uint64_t bytes = costOf(spec.type, *elementCount(shape)) +
                         (spec.type == ElementType::String ? in.message.size() : 0);
  in.decoded.resize(stream().signature.inputs.size());
  if (bytes > in.decoded[index]) {
    if (!event.session->hasRoomFor(bytes - in.decoded[index]))
      return tooLarge("input " + spec.toString() + " of the shape " + toString(shape) + " takes ",
                      bytes);
    in.decoded[index] = bytes;
    in.charge.set(in.bytes());
  }
  Tensor &tensor = in.tensors[index];
  if (Status s = tensor.reshape(spec, shape); !s)
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

Status Event::State::chargeOutputs(uint64_t bytes) {
  const uint64_t more = bytes - std::min(bytes, outputs->charge.bytes());
  if (!event.session->hasRoomFor(more))
    return tooLarge("the outputs take ", bytes);
  outputs->charge.set(event.session->account(), bytes);
  return Status();
}

Status Event::State::prepareOutputs() {
  ServerStream &s = target();
  if (!outputs)
    outputs = std::make_unique<OutputStorage>();
  if (const Codec::Layout *layout = s.outputs->layout()) {
    // What the frame has room for stays charged from one request to the next.
    const uint64_t bytes = std::max<uint64_t>(layout->size, outputs->frame.capacity());
    if (Status status = chargeOutputs(bytes); !status)
      return status;
    if (Status status = outputs->frame.resize(FrameHeaderSize + layout->size); !status)
      return status;
    std::memset(outputs->frame.data(), 0, outputs->frame.size());
    return Status();
  }
  uint64_t bytes = 0;
  for (const TensorSpec &spec : s.signature.outputs)
    bytes += spec.isDynamic() ? 0 : costOf(spec.type, *spec.count());
  if (Status status = chargeOutputs(bytes); !status)
    return status;
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
  return Status();
}

Status Event::State::answer(Status (*send)(State &)) {
  if (!open)
    return Status(Code::InvalidArgument, isAsked(event.kind)
                                             ? "the request has been answered already"
                                             : "this event takes no answer");
  const Status kept = keepHeld();
  const std::lock_guard<std::mutex> lock(server->mutex);
  open = false;
  ServerStatistics &statistics = server->statistics;
  if (event.session->takeCancelled(*event.stream, event.request)) {
    event.session->pace.answered(Deadline::Clock::now());
    ++statistics.dropped;
    return Status(Code::Closed, "the compiler no longer waits for this answer");
  }
  const uint64_t before = statistics.replies;
  Status status;
  try {
    status = kept ? send(*this) : event.session->sendError(event.stream->id, event.request, kept);
  } catch (const std::bad_alloc &) {
    status = Status(Code::LimitExceeded, "the server has no memory for this answer");
    event.session->evict(status); // it must not wait for ever
  }
  // The clock is read once, when the compiler has its answer.
  const Deadline::Clock::time_point now = Deadline::Clock::now();
  event.session->pace.answered(now);
  if (statistics.replies != before)
    statistics.latency.add(now - event.arrived);
  server->loop.update(*event.session);
  return status;
}

/// With the server's mutex held: gives the storage back to the stream, unless somebody holds the
/// inputs.
void Event::State::release() {
  if (event.stream) {
    const bool isKept =
        event.inputs && !event.inputs->mapped.empty() && event.inputs->mapped.front()->isKept();
    if (outputs)
      outputs->charge.set(std::max<uint64_t>(
          outputs->frame.capacity(), outputs->tensors.empty() ? 0 : outputs->charge.bytes()));
    // Nothing is kept for a stream that is over, or where there is much.
    const bool maySpare = !event.session->isClosed() && event.session->maySpare();
    if (event.inputs && event.inputs.use_count() != 1)
      event.inputs->charge.set(0); // what the policy keeps is its own affair
    else if (event.inputs && maySpare && !event.stream->over && !isKept &&
             !event.stream->spareInputs)
      event.stream->spareInputs = std::move(event.inputs);
    if (outputs && maySpare && !target().over && !target().spareOutputs)
      target().spareOutputs = std::move(outputs);
  }
  outputs.reset();
  answering.reset();
  done = truncated = false;
  turn.agent = TurnMessage::Nobody;
  turn.rewards.clear();
  event = QueuedEvent();
  step = 0;
}

EventKind Event::kind() const { return state_ ? state_->event.kind : EventKind::Request; }
uint64_t Event::seed() const { return state_ ? state_->event.seed : 0; }
double Event::reward() const { return state_ ? state_->event.reward : 0; }

const CallContext &Event::context() const {
  static const CallContext none;
  return state_ && state_->event.context ? *state_->event.context : none;
}
uint64_t Event::connection() const {
  return state_ && state_->event.session ? state_->event.session->number() : 0;
}
uint32_t Event::stream() const {
  return state_ && state_->event.stream ? state_->event.stream->id : 0;
}
uint64_t Event::step() const { return state_ ? state_->step : 0; }

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
  if (!state_ || !state_->open || !state_->isDriven() || !state_->hasAgents())
    return Status(Code::InvalidArgument,
                  "only a reset or step of an environment with several agents says who acts next");
  State &s = *state_;
  const std::vector<AgentSpec> &agents = s.server->options.agents;
  if (agent >= agents.size())
    return makeError(Code::InvalidArgument, "there is no agent number ", agent, "; there are ",
                     agents.size(), ", numbered from 0");
  s.turn.agent = static_cast<uint32_t>(agent);
  {
    const std::lock_guard<std::mutex> lock(s.server->mutex);
    std::shared_ptr<ServerStream> stream = s.event.session->streamOf(agents[agent].name);
    if (!stream)
      return Status(Code::InvalidArgument,
                    "the driver has no stream for agent '" + agents[agent].name + "'");
    if (stream.get() == &s.target())
      return Status();
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
  if (!state_ || !state_->isDriven())
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
  if (!state_ || !state_->isDriven())
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

/// Sends the turn that an environment says before its answer.
Status Event::State::sendTurn() {
  if (event.kind == EventKind::Request)
    return Status();
  if (!hasAgents())
    return event.kind == EventKind::Step
               ? event.session->sendMessage(FrameKind::Reward, stream().id, 0,
                                            RewardMessage{event.reward})
               : Status();
  const std::vector<AgentSpec> &agents = server->options.agents;
  turn.rewards.resize(agents.size());
  if (done)
    turn.agent = TurnMessage::Nobody;
  else if (turn.agent == TurnMessage::Nobody)
    turn.agent = static_cast<uint32_t>(findAgent(agents, stream().context->agent));
  return event.session->sendMessage(FrameKind::Turn, stream().id, 0, turn);
}

/// An episode has ended, and another driver may come.
void Event::State::endEpisode() {
  stream().inEpisode = false;
  if (const std::shared_ptr<ServerStream> driver = server->driver.lock())
    driver->inEpisode = false;
}

/// With the server's mutex held: the frame has the outputs.
Status Event::State::encodeOutputs() {
  if (target().outputs->layout())
    return Status();
  std::vector<TensorView> views;
  for (size_t i = 0; i < outputs->tensors.size(); ++i) {
    Tensor &tensor = outputs->tensors[i];
    if (tensor.spec().name.empty())
      return Status(Code::PolicyFailed, "the policy gave no shape to output '" +
                                            target().signature.outputs[i].name + "'");
    views.push_back(tensor.view());
  }
  if (Status s = outputs->frame.resize(FrameHeaderSize); !s)
    return s;
  return target().outputs->encode(views, outputs->frame);
}

Status Event::sendLast() {
  if (!state_ || !state_->open || !state_->isDriven())
    return Status(Code::InvalidArgument, "only a reset or step has a last observation");
  State &s = *state_;
  const std::lock_guard<std::mutex> lock(s.server->mutex);
  Status status = s.encodeOutputs();
  if (status)
    status = s.event.session->sendFrame(FrameKind::Last, s.target().id, s.event.request,
                                        s.outputs->frame, FlagSkippable);
  s.server->loop.update(*s.event.session);
  return status;
}

Status Event::reply() {
  if (!state_)
    return Status(Code::InvalidArgument, "an empty event takes no answer");
  return state_->answer([](State &state) {
    ServerStream &stream = state.stream();
    Buffer &frame = state.outputs->frame;
    Status status = state.done ? frame.resize(FrameHeaderSize) : state.encodeOutputs();
    if (status.ok())
      status = state.sendTurn();
    const uint16_t flags = state.done ? FlagDone | (state.truncated ? FlagTruncated : 0) : 0;
    if (status.ok())
      status = state.event.session->sendFrame(FrameKind::Reply, stream.id, state.event.request,
                                              frame, flags);
    if (state.outputs->tensors.empty()) // what was not sent at once has gone to the session
      state.outputs->charge.set(state.outputs->frame.capacity());
    if (status.ok()) {
      if (state.done)
        state.endEpisode();
      ++state.server->statistics.replies;
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
      why.ok() ? Status(Code::PolicyFailed, "the policy failed without saying why") : why;
  return state_->answer([](State &state) {
    ++state.server->statistics.errors;
    if (state.event.kind != EventKind::Request)
      state.endEpisode();
    return state.event.session->sendError(state.stream().id, state.event.request,
                                          state.event.outcome);
  });
}

} // namespace mlbridge
