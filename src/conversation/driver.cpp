// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <mlbridge/driver.h>

#include "conversation/message_tensors.h"
#include "conversation/remote.h"
#include "core/message.h"
#include "core/uri_options.h"

namespace mlbridge {

struct Driver::State {
  /// One agent: its stream, its action to be sent, and what it observes.
  struct Agent {
    std::string name;
    Signature signature;
    StreamSlot slot;
    MessageTensors observation, action;
    const Buffer *seen = nullptr; ///< where its observation is
    Buffer message;               ///< header and payload of a step
    uint64_t request = 0;

    Status prepare(const SerDes &serdes) {
      if (Status s = observation.prepareFor(signature.inputs, serdes, Side::Inputs); !s)
        return s;
      if (Status s = action.prepareFor(signature.outputs, serdes, Side::Outputs); !s)
        return s;
      return action.makeRoom(message);
    }
  };

  Uri uri;
  RemoteAddress address;
  DriverOptions options;
  Welcome welcome;
  std::shared_ptr<Connection> connection;
  std::vector<std::unique_ptr<Agent>> agents; ///< one, without a name, if there are not several
  size_t acting = 0;                          ///< the agent that acts next
  uint64_t steps = 0;
  bool inEpisode = false, done = false, truncated = false;
  std::vector<double> rewards;

  ~State() { leave(); }
  Agent &agent() { return *agents[acting]; }
  void leave() {
    if (connection)
      for (const std::unique_ptr<Agent> &agent : agents)
        connection->removeStream(agent->slot);
    connection.reset();
  }
  /// Connects, and opens a stream for each agent.
  Status join(Deadline deadline) {
    leave();
    Expected<std::shared_ptr<Connection>> attempt =
        Connection::open(*address.transport, uri, address.connecting, deadline);
    if (!attempt)
      return attempt.status();
    const Welcome &now = (*attempt)->welcome();
    if (!now.signature && now.agents.empty())
      return makeError(Code::Protocol, "the environment states no signature");
    if (!agents.empty() && (now.signature != welcome.signature || now.agents != welcome.agents))
      return makeError(
          Code::Mismatch, "another environment is served there now",
          (now.signature && welcome.signature
               ? ": " + now.signature->toString() + " instead of " + welcome.signature->toString()
               : std::string()));
    welcome = now;
    connection = *attempt;
    if (agents.empty()) {
      std::vector<AgentSpec> specs = welcome.agents;
      if (specs.empty())
        specs.push_back({options.agent, *welcome.signature});
      for (AgentSpec &spec : specs) {
        agents.push_back(std::make_unique<Agent>());
        agents.back()->name = std::move(spec.name);
        agents.back()->signature = std::move(spec.signature);
      }
      rewards.resize(agents.size());
    }
    for (const std::unique_ptr<Agent> &agent : agents) {
      agent->request = 0;
      Outbox frames;
      if (Status s = connection->openStream(
              agent->slot, {agent->signature, {agent->name, options.episode, ""}}, frames);
          !s)
        return s;
      if (Status s = connection->post(agent->slot, frames); !s)
        return s;
    }
    return Status();
  }
  Status ask(FrameKind kind, Buffer &frame, Deadline deadline) {
    Agent &actor = agent();
    for (const std::unique_ptr<Agent> &each : agents) {
      each->seen = nullptr;
      each->slot.hasLast = false;
    }
    done = truncated = false;
    rewards.assign(rewards.size(), 0);
    FrameHeader header{kind, actor.slot.id, ++actor.request, wireTime(deadline)};
    header.length = frame.size() - FrameHeaderSize;
    if (const uint64_t limit = welcome.maxMessage; header.length > limit)
      return makeError(Code::LimitExceeded, "the message has ", header.length,
                       " bytes, the environment accepts ", limit);
    encode(header, frame.data());
    const iovec part{frame.data(), frame.size()};
    bool sent = false;
    Status status = connection->exchange(actor.slot, header.request, &part, 1, deadline, sent);
    if (status)
      status = take(actor);
    inEpisode = status.ok() && !done;
    return status;
  }
  Status take(Agent &actor) {
    done = actor.slot.done;
    truncated = done && actor.slot.truncated;
    if (Status s = takeTurn(actor); !s)
      return s;
    if (!done)
      return look(agent(), actor.slot.reply);
    for (const std::unique_ptr<Agent> &each : agents)
      if (each->slot.hasLast)
        if (Status s = look(*each, each->slot.last); !s)
          return s;
    return Status();
  }
  static Status look(Agent &agent, const Buffer &at) {
    if (Status s = agent.observation.decode(at.span(), "the observation"); !s)
      return s;
    agent.seen = &at;
    return Status();
  }
  /// Reads who acts next, and what each agent has earned.
  Status takeTurn(const Agent &actor) {
    if (welcome.agents.empty()) {
      rewards[0] = actor.slot.reward;
      return Status();
    }
    const std::optional<TurnMessage> &turn = actor.slot.turn;
    if (!turn)
      return makeError(Code::Protocol,
                       "the environment has several agents and did not say who acts");
    if (turn->rewards.size() != agents.size())
      return makeError(Code::Protocol, "the environment gave ", turn->rewards.size(),
                       " rewards to ", agents.size(), " agents");
    rewards = turn->rewards;
    if (done)
      return Status();
    if (turn->agent >= agents.size())
      return makeError(Code::Protocol, "the environment says that agent number ", turn->agent,
                       " acts next, but it has ", agents.size(), " agents");
    acting = turn->agent;
    return Status();
  }
};
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
  Expected<Duration> deadline = parsed->duration("deadline", options.deadline);
  if (!deadline)
    return deadline.status();
  parsed->options.erase("deadline");
  auto state = std::make_unique<State>();
  state->options = options;
  state->options.deadline = *deadline;
  takeOption(*parsed, "agent", state->options.agent);
  takeOption(*parsed, "episode", state->options.episode);
  Expected<RemoteAddress> address = remoteAddress(*parsed);
  if (!address)
    return address.status();
  state->uri = std::move(*parsed);
  state->address = std::move(*address);
  state->address.connecting.role = ServerRole::Environment;
  const auto failed = [&](const Status &why) { return why.withContext(join("'", uri, "'")); };
  if (Status s = state->join(Deadline::after(*deadline)); !s)
    return failed(s);
  state->address.connecting.wait = Duration::zero();
  for (const std::unique_ptr<State::Agent> &agent : state->agents)
    if (Status s = agent->prepare(*state->address.serdes); !s)
      return failed(agent->name.empty() ? s : s.withContext(join("agent '", agent->name, "'")));
  return Driver(std::move(state));
}

const Signature &Driver::signature() const { return state_->agent().signature; }
Span<const AgentSpec> Driver::agents() const { return state_->welcome.agents; }
size_t Driver::agent() const { return state_->acting; }
const Metadata &Driver::metadata() const { return state_->welcome.metadata; }
bool Driver::isDone() const { return state_->done; }
bool Driver::isTruncated() const { return state_->truncated; }
double Driver::reward() const { return reward(state_->acting); }
double Driver::reward(size_t agent) const {
  return agent < state_->rewards.size() ? state_->rewards[agent] : 0;
}
uint64_t Driver::steps() const { return state_->steps; }

Status Driver::reset(std::string_view unit, uint64_t seed) {
  State &s = *state_;
  const Deadline deadline = Deadline::after(s.options.deadline);
  s.inEpisode = false;
  s.steps = 0;
  s.acting = 0;
  if (!s.connection || !s.connection->isUsable())
    if (Status joined = s.join(deadline); !joined)
      return at("reset", joined.withContext(join("'", s.uri.toString(), "'")));
  Buffer frame;
  if (Status sized = frame.resize(FrameHeaderSize); !sized)
    return sized;
  if (Status written = encode(ResetMessage{std::string(unit), seed}, frame); !written)
    return written;
  return at("reset", s.ask(FrameKind::Reset, frame, deadline));
}

Status Driver::step() {
  State &s = *state_;
  State::Agent &agent = s.agent();
  const std::string where = "step " + std::to_string(s.steps);
  if (!s.inEpisode)
    return makeError(Code::InvalidArgument, where, ": no episode is open; call reset first");
  if (!agent.action.layout()) {
    if (Status sized = agent.message.resize(FrameHeaderSize); !sized)
      return sized;
    if (Status written = agent.action.encode(agent.message); !written)
      return written.withContext(where);
  }
  Status status = s.ask(FrameKind::Step, agent.message, Deadline::after(s.options.deadline));
  if (!status)
    return at(where, status);
  ++s.steps;
  return status;
}

TensorView Driver::action(size_t index) {
  State::Agent &agent = state_->agent();
  if (index >= agent.signature.outputs.size())
    return {};
  return agent.action.view(index, agent.message.data() + FrameHeaderSize);
}

Expected<TensorView> Driver::resizeAction(size_t index, Span<const int64_t> shape) {
  State::Agent &agent = state_->agent();
  if (index >= agent.signature.outputs.size())
    return makeError(Code::InvalidArgument, "there is no output number ", index);
  if (Status fits = checkShape(agent.signature.outputs[index], shape); !fits)
    return fits;
  return agent.action.layout() ? Expected<TensorView>(action(index))
                               : agent.action.prepare(index, shape);
}

bool Driver::showLast(size_t agent) {
  if (!state_->done || agent >= state_->agents.size())
    return false;
  state_->acting = agent;
  return state_->agent().seen != nullptr;
}

TensorView Driver::observation(size_t index) const {
  State::Agent &agent = state_->agent();
  if (index >= agent.signature.inputs.size() || !agent.seen)
    return {};
  return agent.observation.view(index, const_cast<uint8_t *>(agent.seen->data()));
}

} // namespace mlbridge
