// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// One episode of the asking loop.
#ifndef MLBRIDGE_RL_PLAYER_H
#define MLBRIDGE_RL_PLAYER_H

#include <mlbridge/environment.h>

namespace mlbridge {

/// Friend of Environment, Runner and Agents: runs one episode.
struct EpisodePlayer {
  struct Episode;
  /// The agent's reward since it acted, when it is its turn or the end.
  static double rewardSince(const Environment &environment, size_t agent) {
    return agent < environment.rewards_.size() ? environment.rewards_[agent].sum : 0;
  }
  /// The Runners of an Agents, null for an agent without a model.
  static std::vector<Runner *> runnersOf(Agents &agents);
};

} // namespace mlbridge

#endif
