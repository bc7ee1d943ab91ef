// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Listing 3: the loop of ONNXModelRunner::evaluateUntyped, here with two agents that take turns:
//   listing3 FIRST.onnx SECOND.onnx
#include "MLModelRunner/ONNXModelRunner/ONNXModelRunner.h"
#include "MLModelRunner/ONNXModelRunner/environment.h"
#include "MLModelRunner/ONNXModelRunner/utils.h"

#include <algorithm>
#include <iostream>
#include <iterator>
#include <map>
#include <memory>
#include <string>
#include <vector>

using namespace MLBridge;

class TurnsEnv : public Environment {
  Observation CurrObs;
  int Steps = 0;

public:
  std::vector<std::string> Log;

  TurnsEnv() { setNextAgent("select"); }
  Observation &reset() override {
    Steps = 0;
    CurrObs.clear();
    std::vector<float> FeatureVector = {1, 5, 2};
    std::copy(FeatureVector.begin(), FeatureVector.end(), std::back_inserter(CurrObs));
    setNextAgent("select");
    return CurrObs;
  }
  Observation &step(Action action) override {
    Log.push_back(getNextAgent() + ":" + std::to_string(action));
    CurrObs[action] = -CurrObs[action];
    // The outcome of one agent decides who is next.
    setNextAgent(getNextAgent() == "select" ? "colour" : "select");
    if (++Steps == 4)
      setDone();
    return CurrObs;
  }
};

int main(int argc, char **argv) {
  if (argc != 3)
    return 2;
  TurnsEnv env;
  Agent *select = new Agent(argv[1]);
  Agent *colour = new Agent(argv[2]);
  std::map<std::string, Agent *> agents;
  agents["select"] = select;
  std::unique_ptr<MLModelRunner> MLRunner =
      std::make_unique<ONNXModelRunner>(&env, agents, nullptr);
  static_cast<ONNXModelRunner *>(MLRunner.get())->addAgent(colour, "colour");
  for (int episode = 0; episode < 2; ++episode) {
    int Out = MLRunner->evaluate<int>();
    for (const std::string &entry : env.Log)
      std::cout << entry << " ";
    std::cout << Out << " " << MLRunner->status().toString() << "\n";
    env.Log.clear();
  }
  delete select;
  delete colour;
  return 0;
}
