// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <mlbridge/driver.h>

#include "conversation/message_tensors.h"
#include "conversation/remote.h"

#include <cstring>

namespace mlbridge {

struct Driver::State {
  Uri uri;
  RemoteAddress address;
  DriverOptions options;
  Welcome welcome;
  Signature signature;
  std::shared_ptr<Connection> connection;
  StreamSlot slot;
  MessageTensors observation, action;
  Buffer message; ///< header and payload of a step
  uint64_t request = 0, steps = 0;
  bool inEpisode = false, hasObservation = false, done = false;
  double reward = 0;

  ~State() { leave(); }
  void leave() {
    if (connection)
      connection->removeStream(slot);
    connection.reset();
  }
  Status join(Deadline deadline);
  Status ask(FrameKind kind, Buffer &frame, Deadline deadline);
  Status take();
};

/// Connects, and opens the one stream.
Status Driver::State::join(Deadline deadline) {
  leave();
  Expected<std::shared_ptr<Connection>> made =
      Connection::open(*address.transport, uri, address.connecting, deadline);
  if (!made)
    return made.status();
  const Welcome &now = (*made)->welcome();
  if (!now.signature)
    return Status(Code::Protocol, "the environment states no signature");
  if (!signature.inputs.empty() && *now.signature != signature)
    return Status(Code::Mismatch,
                  "another environment is served there now: " + now.signature->toString() +
                      " instead of " + signature.toString());
  welcome = now;
  signature = *now.signature;
  connection = *made;
  slot.refused = Status::ok();
  slot.awaiting = 0;
  request = 0;
  connection->addStream(slot);
  OpenStream open;
  open.signature = signature;
  open.agent = options.agent;
  open.episode = options.episode;
  Buffer frame;
  if (Status s = frame.resize(FrameHeaderSize); !s)
    return s;
  if (Status s = encode(open, frame); !s)
    return s;
  FrameHeader header;
  header.kind = FrameKind::OpenStream;
  header.stream = slot.id;
  header.length = frame.size() - FrameHeaderSize;
  encode(header, frame.data());
  return connection->post(frame.data(), frame.size());
}

Status Driver::State::ask(FrameKind kind, Buffer &frame, Deadline deadline) {
  hasObservation = false;
  done = false;
  reward = 0;
  FrameHeader header;
  header.kind = kind;
  header.stream = slot.id;
  header.request = ++request;
  header.length = frame.size() - FrameHeaderSize;
  header.left = wireTime(deadline);
  if (const uint64_t limit = welcome.maxMessage; header.length > limit)
    return Status(Code::LimitExceeded, "the message has " + std::to_string(header.length) +
                                           " bytes, the environment accepts " +
                                           std::to_string(limit));
  encode(header, frame.data());
  const iovec part{frame.data(), frame.size()};
  bool sent = false;
  Status status = connection->exchange(slot, header.request, &part, 1, deadline, sent);
  if (status)
    status = take();
  inEpisode = status.isOk() && !done;
  return status;
}

Status Driver::State::take() {
  reward = slot.reward;
  done = slot.done;
  if (done)
    return Status::ok();
  if (const Codec::Layout *layout = observation.layout()) {
    if (slot.reply.size() != layout->size)
      return Status(Code::Protocol, "the observation has " + std::to_string(slot.reply.size()) +
                                        " bytes, " + std::to_string(layout->size) +
                                        " were expected");
    if (Status s = observation.codec().check(slot.reply.span()); !s)
      return s;
  } else if (Status s = observation.codec().decode(slot.reply.span(), observation); !s) {
    return s;
  }
  hasObservation = true;
  return Status::ok();
}

/// The environment may have named the place already.
static Status at(const std::string &where, const Status &status) {
  return status || status.message().compare(0, where.size(), where) == 0
             ? status
             : status.withContext(where);
}

Driver::Driver(std::unique_ptr<State> state) : state_(std::move(state)) {}
Driver::Driver(Driver &&) noexcept = default;
Driver &Driver::operator=(Driver &&) noexcept = default;
Driver::~Driver() = default;

Expected<Driver> Driver::open(std::string_view uri, const DriverOptions &options) {
  Expected<Uri> parsed = Uri::parse(uri);
  if (!parsed)
    return parsed.status();
  Expected<RemoteAddress> address = remoteAddress(*parsed);
  if (!address)
    return address.status();
  Expected<Duration> deadline = parsed->duration("deadline", options.deadline);
  if (!deadline)
    return deadline.status();
  auto state = std::make_unique<State>();
  state->uri = std::move(*parsed);
  state->address = std::move(*address);
  state->address.connecting.role = ServerRole::Environment;
  state->options = options;
  state->options.deadline = *deadline;
  const auto failed = [&](const Status &why) {
    return why.withContext("'" + std::string(uri) + "'");
  };
  if (Status s = state->join(Deadline::after(*deadline)); !s)
    return failed(s);
  state->address.connecting.wait = Duration::zero();
  if (Status s = state->observation.prepareFor(state->signature.inputs, *state->address.serdes,
                                               Side::Inputs);
      !s)
    return failed(s);
  if (Status s =
          state->action.prepareFor(state->signature.outputs, *state->address.serdes, Side::Outputs);
      !s)
    return failed(s);
  const size_t payload = state->action.layout() ? state->action.layout()->size : 0;
  if (Status s = state->message.resize(FrameHeaderSize + payload); !s)
    return s;
  std::memset(state->message.data(), 0, state->message.size());
  return Driver(std::move(state));
}

const Signature &Driver::signature() const { return state_->signature; }
const Metadata &Driver::metadata() const { return state_->welcome.metadata; }
bool Driver::isDone() const { return state_->done; }
double Driver::reward() const { return state_->reward; }
uint64_t Driver::steps() const { return state_->steps; }

Status Driver::reset(std::string_view context, uint64_t seed) {
  State &s = *state_;
  const Deadline deadline = Deadline::after(s.options.deadline);
  s.inEpisode = false;
  s.steps = 0;
  if (!s.connection || !s.connection->isUsable())
    if (Status joined = s.join(deadline); !joined)
      return at("reset", joined);
  Buffer frame;
  if (Status sized = frame.resize(FrameHeaderSize); !sized)
    return sized;
  ResetMessage reset;
  reset.context = std::string(context);
  reset.seed = seed;
  if (Status written = encode(reset, frame); !written)
    return written;
  return at("reset", s.ask(FrameKind::Reset, frame, deadline));
}

Status Driver::step() {
  State &s = *state_;
  const std::string where = "step " + std::to_string(s.steps);
  if (!s.inEpisode)
    return Status(Code::InvalidArgument, where + ": no episode is open, reset first");
  if (!s.action.layout()) {
    if (Status sized = s.message.resize(FrameHeaderSize); !sized)
      return sized;
    if (Status written = s.action.encode(s.message); !written)
      return written.withContext(where);
  }
  Status status = s.ask(FrameKind::Step, s.message, Deadline::after(s.options.deadline));
  if (!status)
    return at(where, status);
  ++s.steps;
  return status;
}

TensorView Driver::action(size_t index) {
  State &s = *state_;
  if (index >= s.signature.outputs.size())
    return {};
  return s.action.layout() ? s.action.inMessage(index, s.message.data() + FrameHeaderSize)
                           : s.action.own(index);
}

Expected<TensorView> Driver::resizeAction(size_t index, Span<const int64_t> shape) {
  State &s = *state_;
  if (index >= s.signature.outputs.size())
    return Status(Code::InvalidArgument, "there is no output number " + std::to_string(index));
  if (Status fits = checkShape(s.signature.outputs[index], shape); !fits)
    return fits;
  return s.action.layout() ? Expected<TensorView>(action(index)) : s.action.prepare(index, shape);
}

TensorView Driver::observation(size_t index) const {
  State &s = *state_;
  if (index >= s.signature.inputs.size() || !s.hasObservation)
    return {};
  return s.observation.layout() ? s.observation.inMessage(index, s.slot.reply.data())
                                : s.observation.own(index);
}

} // namespace mlbridge
