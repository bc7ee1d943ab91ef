// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The asking loop.
#include "rl/player.h"

#include "core/message.h"
#include "core/nearest.h"
#include "runner/runner_state.h"

#include <algorithm>
#include <cmath>

namespace mlbridge {

namespace {

#ifdef NDEBUG
constexpr bool IsDebugBuild = false;
#else
constexpr bool IsDebugBuild = true;
#endif

template <typename T> bool hasOnlyFinite(const TensorView &view) {
  for (const T x : view.as<T>())
    if (!std::isfinite(x))
      return false;
  return true;
}

/// True if a mask allows nothing.
bool isAllZero(const TensorView &view) {
  const auto *bytes = static_cast<const uint8_t *>(view.data);
  return view.count != 0 && view.type != ElementType::String &&
         std::all_of(bytes, bytes + view.bytes(), [](uint8_t byte) { return byte == 0; });
}

} // namespace

Environment::~Environment() = default;

const Signature &Environment::signature() const {
  static const auto *none = new Signature;
  return *none;
}

Span<const AgentSpec> Environment::agents() const { return {}; }

Observation &Observation::forAgent(size_t agent) {
  const size_t count = agents_.empty() ? 1 : agents_.size();
  if (agent >= count) {
    unknown_ = makeError(Code::InvalidArgument, "there is no agent number ", agent, "; there are ",
                         count, ", numbered from 0");
    return *this;
  }
  next_ = agent;
  if (!agents_.empty())
    agent_ = agents_[agent];
  return *this;
}

Observation &Observation::forAgent(std::string_view name) {
  if (const int agent = findAgent(specs_, name); agent >= 0)
    return forAgent(static_cast<size_t>(agent));
  const std::vector<std::string_view> names = namesOf(specs_);
  unknown_ = Status(Code::InvalidArgument, "there is no agent '" + std::string(name) + "'" +
                                               suggestion(name, names, "agents"));
  return *this;
}

Expected<int64_t> Action::choice(std::string_view name, size_t choices) const {
  Expected<int64_t> chosen = get<int64_t>(name);
  if (chosen && (*chosen < 0 || static_cast<uint64_t>(*chosen) >= choices))
    return makeError(Code::PolicyFailed, "output '", name, "' is ", *chosen, "; there are ",
                     choices, " choices, numbered from 0");
  return chosen;
}

/// One episode of the asking loop.
struct EpisodePlayer::Episode {
  Environment &environment;
  const Span<Runner *const> runners;
  const Span<const AgentSpec> specs; ///< empty: one agent, of the environment's signature
  const EpisodeOptions &options;
  EpisodeResult result = {};
  Observation next{runners, specs};

  EpisodeResult run() {
    result.status = begin();
    if (!result.status)
      return std::move(result);
    size_t begun = 0;
    for (; begun < runners.size() && result.status; ++begun) {
      runners[begun]->clearStatus();
      result.status = runners[begun]->beginEpisode(options.episode, options.unit);
    }
    if (!result.status) {
      --begun; // that one has not
      if (!specs.empty()) {
        result.failedAgent = static_cast<int>(begun);
        result.status = result.status.withContext("agent '" + specs[begun].name + "'");
      }
      result.status = result.status.withContext("beginning the episode");
    } else {
      result.status = play();
    }
    for (size_t i = 0; i < begun && result.status; ++i)
      if (const Runner::State &state = *runners[i]->state_; next.written_[i] && !state.inferring)
        state.runner->lastObservation();
    // The episode has happened; that nobody could be told is seen by the next evaluation.
    for (size_t i = 0; i < begun; ++i) {
      (void)tell(i);
      (void)runners[i]->endEpisode(result.status, result.truncated);
    }
    return std::move(result);
  }

  std::string where(size_t agent) const {
    std::string text = "step " + std::to_string(result.steps);
    if (!specs.empty())
      text += ", agent '" + specs[agent].name + "'";
    return text;
  }
  // Before anything happens: is this an agent for this environment?
  Status checkAgent(size_t number) const {
    const std::string who = specs.empty() ? "the agent" : "agent '" + specs[number].name + "'";
    if (!runners[number])
      return Status(Code::NotFound, "no model was given for " + who);
    const Runner &runner = *runners[number];
    const Runner::State *state = runner.state_.get();
    if (!state || !state->failure.ok())
      return specs.empty() ? runner.status() : runner.status().withContext(who);
    const Signature &wanted = specs.empty() ? environment.signature() : specs[number].signature;
    const Signature *has = runner.signature();
    if (!has)
      return Status(Code::InvalidArgument,
                    who + " was opened without the environment's signature " + wanted.toString());
    if (*has != wanted)
      return Status(Code::Mismatch, "the environment states " + wanted.toString() + ", " + who +
                                        " is bound to " + has->toString());
    return Status();
  }
  // Checks what reset and step have to leave behind them.
  Status checkEnvironment() const {
    if (environment.doneCalls_ > 1)
      return Status(Code::InvalidArgument, "the environment called setDone() twice");
    if (!next.unknown_.ok())
      return next.unknown_;
    if (environment.unknownRewarded_)
      return Status(Code::InvalidArgument,
                    "the environment gave a reward to an agent that does not exist");
    const Runner::State &state = *next.agent_->state_;
    if (state.wrongInputs || !state.unknownInput.ok())
      return state.last.withContext(
          "the environment wrote an observation that does not fit its signature");
    return Status();
  }
  Status checkValues() const {
    for (const Environment::Reward &reward : environment.rewards_)
      if (!std::isfinite(reward.value))
        return Status(Code::InvalidArgument, "the environment gave a reward that is not finite");
    if (environment.isDone() && !next.written_[next.next_])
      return Status();
    for (const Runner::State::Input &input : next.agent_->state_->inputs) {
      const TensorView &view = input.view;
      const bool isFinite = view.type == ElementType::Float32   ? hasOnlyFinite<float>(view)
                            : view.type == ElementType::Float64 ? hasOnlyFinite<double>(view)
                                                                : true;
      if (!isFinite)
        return Status(Code::InvalidArgument,
                      "the environment wrote a number that is not finite to '" +
                          input.port->spec.toString() + "'");
      if (!environment.isDone() && input.port->spec.name == "action_mask" && isAllZero(view))
        return Status(Code::InvalidArgument, "the environment's action_mask allows no action");
    }
    return Status();
  }
  Status checked() const {
    Status s = checkEnvironment();
    return s.ok() && (IsDebugBuild || options.checkValues) ? checkValues() : s;
  }
  Status begin() {
    for (size_t i = 0; i < runners.size(); ++i)
      if (Status s = checkAgent(i); !s)
        return s;
    environment.doneCalls_ = 0;
    environment.truncated_ = environment.unknownRewarded_ = false;
    environment.acted_ = 0;
    environment.unit_ = options.unit;
    environment.seed_ = options.seed;
    environment.rewards_.assign(runners.size(), {});
    result.agentRewards.assign(runners.size(), 0);
    return Status();
  }
  Status play() {
    const Deadline end =
        options.deadline == Duration::max() ? Deadline::never() : Deadline::after(options.deadline);
    Status s = environment.reset(next);
    if (s)
      s = checked();
    if (!s)
      return s.withContext("reset");
    while (!environment.isDone()) {
      if (options.maxSteps && result.steps >= options.maxSteps) {
        result.reachedLimit = result.truncated = true;
        next.written_[next.next_] = true;
        return Status();
      }
      const size_t acting = next.next_;
      Runner &agent = *runners[acting];
      const auto failed = [&](const Status &why) {
        result.failedAgent = static_cast<int>(acting);
        return why.withContext(where(acting));
      };
      if (s = tell(acting); !s) {
        result.failedAgent = static_cast<int>(acting);
        return s.withContext("the reward of step " + std::to_string(result.steps - 1));
      }
      if (s = evaluate(agent, end); !s)
        return failed(s);
      next.written_[acting] = false;
      for (Environment::Reward &reward : environment.rewards_) {
        reward.value = 0;
        reward.isSet = false;
      }
      environment.rewards_[acting].sum = 0;
      environment.acted_ = acting;
      s = environment.step(Action(agent, acting), next);
      if (s)
        s = checked();
      if (!s)
        return failed(s);
      ++result.steps;
      collectRewards();
    }
    result.truncated = environment.truncated_;
    return Status();
  }
  Status evaluate(Runner &agent, Deadline end) const {
    if (end.isNever())
      return agent.evaluate(); // which needs no clock in process
    const Duration left = end.left();
    if (left <= Duration::zero())
      return Status(Code::DeadlineExceeded, "the deadline of the episode has passed");
    return agent.evaluateWithin(std::min(left, agent.state_->deadline));
  }
  /// Tells an agent what it was given since it acted.
  Status tell(size_t agent) {
    Environment::Reward &reward = environment.rewards_[agent];
    if (!reward.isOwed)
      return Status();
    reward.isOwed = false;
    return runners[agent]->reward(reward.sum);
  }
  void collectRewards() {
    for (size_t i = 0; i < environment.rewards_.size(); ++i) {
      Environment::Reward &reward = environment.rewards_[i];
      if (!reward.isSet)
        continue;
      reward.sum += reward.value;
      reward.isOwed = true;
      result.agentRewards[i] += reward.value;
      result.totalReward += reward.value;
    }
  }
};

EpisodeResult run(Environment &environment, Span<Runner *const> agents,
                  const EpisodeOptions &options) {
  EpisodeResult result;
  const Span<const AgentSpec> specs = environment.agents();
  result.status = checkAgents(specs);
  if (const size_t wanted = std::max<size_t>(specs.size(), 1);
      result.status.ok() && agents.size() != wanted)
    result.status = makeError(Code::Mismatch, "the environment has ", wanted, " agents, ",
                              agents.size(), " were given");
  if (!result.status)
    return result;
  return EpisodePlayer::Episode{environment, agents, specs, options}.run();
}

EpisodeResult run(Environment &environment, Agents &agents, const EpisodeOptions &options) {
  const std::vector<Runner *> runners = EpisodePlayer::runnersOf(agents);
  if (runners.empty()) {
    EpisodeResult result;
    result.status = agents.status();
    return result;
  }
  return run(environment, Span<Runner *const>(runners), options);
}

EpisodeResult run(Environment &environment, Runner &agent, const EpisodeOptions &options) {
  Runner *const only = &agent;
  return run(environment, Span<Runner *const>(&only, 1), options);
}

EpisodeResult run(Environment &environment, const Model &model, const EpisodeOptions &options) {
  Runner agent = model.newRunner({"", options.episode, options.unit});
  return run(environment, agent, options);
}

} // namespace mlbridge
