// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Agent of the 2024 release: a network whose largest output is the action.
#ifndef MLBRIDGE_COMPAT_AGENT_H
#define MLBRIDGE_COMPAT_AGENT_H

#include "MLModelRunner/ONNXModelRunner/onnx.h"
#include "MLModelRunner/ONNXModelRunner/utils.h"

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

} // namespace MLBridge

#endif
