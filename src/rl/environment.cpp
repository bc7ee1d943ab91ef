// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The asking loop.
#include <mlbridge/environment.h>

#include "runner/runner_state.h"

namespace mlbridge {

Environment::~Environment() = default;

struct EpisodeDriver {
  Environment &environment;
  Runner &agent;
  const EpisodeOptions &options;
  EpisodeResult result = {};

  std::string stepName() const { return "step " + std::to_string(result.steps); }

  // Before anything happens: is this an agent for this environment?
  Status checkAgent() const {
    const Runner::State *state = agent.state_.get();
    if (!state || !state->failure.isOk())
      return agent.status();
    const Signature &wanted = environment.signature();
    const Signature *has = agent.signature();
    if (!has)
      return Status(Code::InvalidArgument,
                    "the agent was opened without the environment's signature " +
                        wanted.toString());
    if (*has != wanted)
      return Status(Code::Mismatch, "the environment states " + wanted.toString() +
                                        ", the agent is bound to " + has->toString());
    return Status::ok();
  }

  // What reset and step have to leave behind them.
  Status checkEnvironment() const {
    if (environment.doneCalls_ > 1)
      return Status(Code::InvalidArgument, "the environment called setDone() twice");
    const Runner::State &state = *agent.state_;
    if (state.wrongInputs || !state.unknownInput.isOk())
      return state.last.withContext("the environment wrote outside its signature");
    return Status::ok();
  }

  Status play() {
    const Deadline end = Deadline::after(options.deadline);
    Observation observation(agent);
    const Action action(agent);
    Status s = environment.reset(observation);
    if (s)
      s = checkEnvironment();
    if (!s)
      return s.withContext("reset");
    while (!environment.isDone()) {
      if (options.maxSteps && result.steps >= options.maxSteps) {
        result.reachedLimit = true;
        return Status::ok();
      }
      const Deadline own = Deadline::after(agent.state_->options.deadline);
      if (end.hasPassed())
        return Status(Code::DeadlineExceeded, stepName() + ": the time of the episode is over");
      if (s = agent.evaluate(earlier(own, end)); !s)
        return s.withContext(stepName());
      environment.reward_ = 0;
      environment.hasReward_ = false;
      s = environment.step(action, observation);
      if (s)
        s = checkEnvironment();
      if (!s)
        return s.withContext(stepName());
      ++result.steps;
      result.totalReward += environment.reward_;
      if (environment.hasReward_)
        if (s = agent.reward(environment.reward_); !s)
          return s.withContext("the reward of step " + std::to_string(result.steps - 1));
    }
    return Status::ok();
  }

  EpisodeResult run() {
    result.status = checkAgent();
    if (!result.status)
      return result;
    agent.clearStatus();
    environment.doneCalls_ = 0;
    environment.context_ = options.context;
    environment.seed_ = options.seed;
    environment.reward_ = 0;
    environment.hasReward_ = false;
    result.status = agent.beginEpisode(options.episode, options.context);
    if (!result.status) {
      result.status = result.status.withContext("the begin of the episode");
      return result;
    }
    result.status = play();
    // The episode has happened; that nobody could be told is seen by the next evaluation.
    (void)agent.endEpisode(result.status);
    return result;
  }
};

EpisodeResult run(Environment &environment, Runner &agent, const EpisodeOptions &options) {
  return EpisodeDriver{environment, agent, options}.run();
}

EpisodeResult run(Environment &environment, const Model &model, const EpisodeOptions &options) {
  OpenOptions overrides;
  overrides.episode = options.episode;
  overrides.context = options.context;
  Runner agent = model.newRunner(overrides);
  return run(environment, agent, options);
}

} // namespace mlbridge
