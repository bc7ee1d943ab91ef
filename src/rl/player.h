// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// One episode of the asking loop.
#ifndef MLBRIDGE_RL_PLAYER_H
#define MLBRIDGE_RL_PLAYER_H

#include <mlbridge/environment.h>

namespace mlbridge {

struct EpisodePlayer {
  Environment &environment;
  const Span<Runner *const> runners;
  const Span<const AgentSpec> specs; ///< empty: one agent, of the environment's signature
  const EpisodeOptions &options;
  EpisodeResult result = {};
  Observation next{runners, specs};

  EpisodeResult run();

  /// What the agent has been given since it acted, when it is its turn or the end.
  static double rewardSince(const Environment &environment, size_t agent) {
    return agent < environment.rewards_.size() ? environment.rewards_[agent].sum : 0;
  }
  /// The Runners of an Agents, null for an agent without a model.
  static std::vector<Runner *> runnersOf(Agents &agents);

private:
  std::string where(size_t agent) const;
  Status checkAgent(size_t agent) const;
  Status checkEnvironment() const;
  Status checkValues() const;
  Status checked() const;
  Status begin();
  Status play();
  Status evaluate(Runner &agent, Deadline end) const;
  Status tell(size_t agent);
  void collectRewards();
};

} // namespace mlbridge

#endif
