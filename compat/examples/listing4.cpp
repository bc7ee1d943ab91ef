// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Listings 1 and 4: a runner of one's own, and the use of any runner.
//   listing4                    a runner in this process
//   listing4 json|bytes BASE    a model behind the pipes BASE.out and BASE.in: listing5.py
#include "MLCompilerBridge/MLModelRunner.h"
#include "MLCompilerBridge/PipeModelRunner.h"

#include <iostream>
#include <memory>
#include <string>
#include <vector>

using namespace MLBridge;

/// Listing 1: what derives from MLModelRunner says how the model is asked.
class SumModelRunner : public MLModelRunner {
public:
  explicit SumModelRunner(BaseSerDes::Kind kind) : MLModelRunner(Kind::Unknown, kind) {}

private:
  void *evaluateUntyped() override {
    // The features as the SerDes writes them, {"x":[1,2,3]}; the model counts the commas.
    auto *features = static_cast<std::string *>(SerDes->getSerializedData());
    int commas = 0;
    for (char c : *features)
      commas += c == ',';
    Reply = "{\"out\": " + std::to_string(commas) + "}";
    return SerDes->deserializeUntyped(&Reply);
  }
  std::string Reply;
};

int main(int argc, char **argv) {
  // Instantiate the required model runner with SerDes type
  std::unique_ptr<MLModelRunner> MLRunner;
  if (argc == 3) {
    std::string basename = argv[2];
    MLRunner = std::make_unique<PipeModelRunner>(basename + ".out", basename + ".in",
                                                 std::string(argv[1]) == "json"
                                                     ? MLBridge::SerDes::Kind::Json
                                                     : MLBridge::SerDes::Kind::Bitstream);
  } else {
    MLRunner = std::make_unique<SumModelRunner>(MLBridge::SerDes::Kind::Json);
  }
  // Process Input Features
  std::pair<std::string, std::vector<float>> p("x", {3, 1, 2});
  MLRunner->populateFeatures(p);
  // Get ML Advice/Output
  int advice = MLRunner->evaluate<int>();
  // Use the obtained advice
  std::cout << advice << " " << MLRunner->status().toString() << "\n";
  return 0;
}
