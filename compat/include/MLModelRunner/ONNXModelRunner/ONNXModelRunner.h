// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// ONNXModelRunner of the 2024 release: one or more agents in this process decide for an
// environment.
#ifndef MLBRIDGE_COMPAT_ONNXMODELRUNNER_H
#define MLBRIDGE_COMPAT_ONNXMODELRUNNER_H

#include "MLModelRunner/MLModelRunner.h"
#include "MLModelRunner/ONNXModelRunner/agent.h"
#include "MLModelRunner/ONNXModelRunner/environment.h"

#include <cstdint>
#include <map>
#include <string>
#include <utility>

namespace MLBridge {

class ONNXModelRunner : public MLModelRunner {
public:
  /// Environment and agents stay the caller's.
  ONNXModelRunner(Environment *env, std::map<std::string, Agent *> agents,
                  llvm::LLVMContext *Ctx = nullptr)
      : MLModelRunner(Kind::ONNX, Ctx), env(env), agents(std::move(agents)) {}

  static bool classof(const MLModelRunner *R) { return R->getKind() == Kind::ONNX; }
  void setEnvironment(Environment *_env) { env = _env; }
  Environment *getEnvironment() { return env; }
  void addAgent(Agent *agent, std::string name) {
    if (!agents.emplace(name, agent).second)
      fail({mlbridge::Code::InvalidArgument, "there is an agent '" + name + "' already"});
  }
  /// Asks the agents from this observation on until the episode is done.
  void computeAction(Observation &obs) { finish(&obs); }
  void requestExit() override {}

  /// Not in the release: an episode with more steps fails with LimitExceeded.
  void setMaxSteps(uint64_t steps) { maxSteps = steps; }

protected:
  /// An episode. The answer is 0, as in the release, unless it failed: an agent that is unknown or
  /// gave no answer, too many steps.
  void *evaluateUntyped() override {
    if (env)
      env->resetDone();
    return finish(env ? &env->reset() : nullptr) ? &answer : nullptr;
  }

private:
  bool finish(Observation *obs) {
    if (!env) {
      fail({mlbridge::Code::InvalidArgument, "the ONNXModelRunner has no environment"});
      return false;
    }
    mlbridge::Status status = finishEpisode(*env, agents, maxSteps, [&](Agent &agent) {
      const unsigned action = agent.computeAction(*obs);
      mlbridge::Status answered = agent.status();
      if (answered)
        obs = &env->step(static_cast<Action>(action));
      return answered;
    });
    if (!status)
      fail(status);
    return status.ok();
  }

  Environment *env;
  std::map<std::string, Agent *> agents;
  uint64_t maxSteps = 1'000'000;
  int64_t answer = 0; // whichever integer type it is read as
};

} // namespace MLBridge

#endif
