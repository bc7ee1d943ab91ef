// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A pass that asks until the model says -1, as POSET-RL did: episode json|bytes BASENAME
#include "MLModelRunner/MLModelRunner.h"
#include "MLModelRunner/PipeModelRunner.h"

#include <iostream>
#include <memory>
#include <string>
#include <vector>

using namespace MLBridge;

int main(int argc, char **argv) {
  if (argc != 3)
    return 2;
  std::string data_format = argv[1], basename = argv[2];
  BaseSerDes::Kind SerDesType;
  if (data_format == "json")
    SerDesType = BaseSerDes::Kind::Json;
  else
    SerDesType = BaseSerDes::Kind::Bitstream;
  std::unique_ptr<MLModelRunner> MLRunner =
      std::make_unique<PipeModelRunner>(basename + ".out", basename + ".in", SerDesType, nullptr);
  std::vector<float> embedding(300, 0.5f);
  while (true) {
    std::pair<std::string, std::vector<float>> p1("embedding", embedding);
    MLRunner->populateFeatures(p1);
    int action = MLRunner->evaluate<int>();
    if (action == -1)
      break;
    std::cout << action << " ";
    embedding[action] += 1;
  }
  std::cout << MLRunner->status().toString() << "\n";
  return 0;
}
