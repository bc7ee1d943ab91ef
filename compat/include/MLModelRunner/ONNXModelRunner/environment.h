// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Environment of the 2024 release: a pass that decides step by step, asked by an ONNXModelRunner.
#ifndef MLBRIDGE_COMPAT_ENVIRONMENT_H
#define MLBRIDGE_COMPAT_ENVIRONMENT_H

#include "MLModelRunner/ONNXModelRunner/agent.h"

#include <map>
#include <string>
#include <utility>

typedef signed Action;

namespace MLBridge {

class Environment {
public:
  virtual ~Environment() = default;

  bool checkDone() { return done; }
  void setDone() { done = true; }
  void resetDone() { done = false; }
  std::string getNextAgent() { return nextAgent; }
  void setNextAgent(std::string name) { nextAgent = std::move(name); }
  virtual Observation &step(Action action) = 0;
  virtual Observation &reset() = 0;

protected:
  std::map<std::string, Observation &> obsMap;

private:
  bool done = false;
  std::string nextAgent;
};

} // namespace MLBridge

#endif
