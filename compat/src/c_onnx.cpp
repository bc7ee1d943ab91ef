// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The header's Environment and ONNXModelRunner are global; those of C++ are in MLBridge, and their
// headers, which a program may have compiled with LLVM's types, aren't used here.
#include "MLModelRunner/C/ONNXModelRunner.h"
#include "MLModelRunner/ONNXModelRunner/agent.h"

#include <cstdarg>
#include <map>
#include <memory>
#include <string>
#include <vector>

using mlbridge::Code;
using mlbridge::Status;

struct Environment {
  bool checkDone() const { return done; }
  const std::string &getNextAgent() const { return nextAgent; }

  float *(*step)(Action action) = nullptr;
  float *(*reset)(void) = nullptr;
  size_t features = 0;
  std::string nextAgent;
  bool done = false;
};

struct ONNXModelRunner {
  Environment *env = nullptr;
  std::map<std::string, std::unique_ptr<MLBridge::Agent>> agents;
  std::string error;
};

namespace {

constexpr uint64_t MaxSteps = 1'000'000;

Status episode(ONNXModelRunner &runner) {
  Environment *env = runner.env;
  if (!env || !env->step || !env->reset || env->features == 0)
    return {Code::InvalidArgument,
            "the environment needs env_setNumFeatures, env_setStepFunc and env_setResetFunc"};
  env->done = false;
  const float *observation = env->reset();
  return MLBridge::finishEpisode(
      *env, runner.agents, MaxSteps, [&](MLBridge::Agent &agent) -> Status {
        if (!observation)
          return {Code::InvalidArgument, "the environment gave no observation"};
        const unsigned action = agent.computeAction(observation, env->features);
        Status answered = agent.status();
        if (answered)
          observation = env->step(static_cast<Action>(action));
        return answered;
      });
}

void remember(ONNXModelRunner &runner, const Status &status) {
  runner.error = status ? std::string() : status.toString();
}

} // namespace

Environment *createEnvironment(void) { return new Environment; }
void env_setDone(Environment *env) {
  if (env)
    env->done = true;
}
void env_resetDone(Environment *env) {
  if (env)
    env->done = false;
}
bool env_checkDone(Environment *env) { return !env || env->done; }
void env_setNumFeatures(Environment *env, int numFeatures) {
  if (env)
    env->features = numFeatures > 0 ? static_cast<size_t>(numFeatures) : 0;
}
void env_setStepFunc(Environment *env, float *(*stepFunc)(Action action)) {
  if (env)
    env->step = stepFunc;
}
void env_setResetFunc(Environment *env, float *(*resetFunc)(void)) {
  if (env)
    env->reset = resetFunc;
}
void env_setNextAgent(Environment *env, char *agentName) {
  if (env)
    env->nextAgent = agentName ? agentName : "";
}
void destroyEnvironment(Environment *env) { delete env; }

ONNXModelRunner *createONNXModelRunnerOf(Environment *env, const char *const *namesAndPaths,
                                         int strings) {
  auto *runner = new ONNXModelRunner;
  runner->env = env;
  for (int i = 0; i + 1 < strings && namesAndPaths[i] && namesAndPaths[i + 1]; i += 2) {
    auto &agent = runner->agents[namesAndPaths[i]];
    agent = std::make_unique<MLBridge::Agent>(namesAndPaths[i + 1]);
    if (runner->error.empty() && !agent->status())
      remember(*runner, agent->status());
  }
  return runner;
}

ONNXModelRunner *(createONNXModelRunner)(Environment * env, int numAgents, ...) {
  std::vector<const char *> strings;
  va_list args;
  va_start(args, numAgents);
  for (int i = 0; i < numAgents; i += 2) {
    strings.push_back(va_arg(args, const char *));
    strings.push_back(va_arg(args, const char *));
  }
  va_end(args);
  return createONNXModelRunnerOf(env, strings.data(), static_cast<int>(strings.size()));
}

ONNXModelRunner *createSingleAgentOMR(char *agent_path) {
  const char *const strings[] = {"", agent_path ? agent_path : ""};
  return createONNXModelRunnerOf(nullptr, strings, 2);
}

void evaluate(ONNXModelRunner *obj) {
  if (obj)
    remember(*obj, episode(*obj));
}

int singleAgentEvaluate(ONNXModelRunner *obj, float *inp, int inp_size) {
  if (!obj)
    return -1;
  Action action = -1;
  Status status(Code::InvalidArgument, "there is not one agent, or no observation");
  if (obj->agents.size() == 1 && inp && inp_size > 0) {
    MLBridge::Agent &agent = *obj->agents.begin()->second;
    action = static_cast<Action>(agent.computeAction(inp, static_cast<size_t>(inp_size)));
    status = agent.status();
  }
  remember(*obj, status);
  return status ? action : -1;
}

void destroyONNXModelRunner(ONNXModelRunner *obj) { delete obj; }

const char *ONNXModelRunnerError(const ONNXModelRunner *obj) {
  return obj ? obj->error.c_str() : "no runner";
}
