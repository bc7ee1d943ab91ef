// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Agents and networks are copied, as the release's could be: copies FIRST.onnx SECOND.onnx
#include "MLModelRunner/ONNXModelRunner/ONNXModelRunner.h"
#include "SerDes/TensorSpec.h"

#include <cstdint>
#include <iostream>
#include <map>
#include <string>
#include <vector>

using namespace MLBridge;

int main(int argc, char **argv) {
  if (argc != 3)
    return 2;
  std::vector<Agent> agents;
  agents.push_back(Agent(argv[1]));
  agents.push_back(Agent(argv[2]));
  agents.push_back(agents[0]);
  Agent last = std::string(argv[1]); // as a path it is given to functions, too
  last = agents[1];
  agents.push_back(last);
  Observation observation = {0.5f, -1.0f, 2.0f};
  for (Agent agent : agents)
    std::cout << agent.computeAction(observation) << " ";
  std::map<std::string, ONNXModel> models;
  models.emplace("first", ONNXModel(argv[1]));
  ONNXModel copy = models.at("first");
  models.clear();
  Observation output;
  copy.run(observation, output);
  for (float value : output)
    std::cout << value << " ";
  const float floats[] = {0.5f, -1.0f};
  const std::vector<int8_t> bytes = {1, -2, 3};
  std::cout << tensorValueToString(reinterpret_cast<const char *>(floats),
                                   TensorSpec::createSpec<float>("floats", {2}))
            << " "
            << tensorValueToString(reinterpret_cast<const char *>(bytes.data()),
                                   TensorSpec::createSpec<int8_t>("bytes", {3, 1}))
            << "\n";
  return 0;
}
