// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Agent of the 2024 release: a network whose largest output is the action.
#ifndef MLBRIDGE_COMPAT_AGENT_H
#define MLBRIDGE_COMPAT_AGENT_H

#include "MLModelRunner/ONNXModelRunner/onnx.h"
#include "MLModelRunner/ONNXModelRunner/utils.h"

#include <cstdint>
#include <string>

namespace MLBridge {

/// A copy asks the same network.
class Agent {
public:
  /// A path or URI, as for ONNXModel. Keeps a failure for status().
  Agent(const std::string &model_path) : model_(model_path.c_str()), status_(model_.status()) {}

  /// The index of the largest output, the first of equal ones. Without an answer 0, and status()
  /// says why.
  unsigned computeAction(Observation &obs) { return computeAction(obs.data(), obs.size()); }

  // What follows is not in the release.
  unsigned computeAction(const float *observation, size_t count);
  const mlbridge::Status &status() const { return status_; }

private:
  ONNXModel model_;
  mlbridge::Status status_;
};

/// Not in the release: until the environment is done, calls `step` with the agent that it names.
/// Environment is that of C++ or that of C.
template <typename Environment, typename Agents, typename Step>
mlbridge::Status finishEpisode(Environment &env, const Agents &agents, uint64_t maxSteps,
                               Step step) {
  for (uint64_t steps = 0; !env.checkDone(); ++steps) {
    if (steps == maxSteps)
      return {mlbridge::Code::LimitExceeded,
              "the environment is not done after " + std::to_string(steps) + " steps"};
    const std::string &name = env.getNextAgent(); // or the copy that it returns
    auto agent = agents.find(name);
    // Who never names an agent means the only one.
    if (agent == agents.end() && name.empty() && agents.size() == 1)
      agent = agents.begin();
    if (agent == agents.end() || !agent->second)
      return {mlbridge::Code::InvalidArgument, "there is no agent '" + name + "'"};
    if (mlbridge::Status s = step(*agent->second); !s)
      return s.withContext("agent '" + agent->first + "', step " + std::to_string(steps));
  }
  return mlbridge::Status();
}

} // namespace MLBridge

#endif
