// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// TFModelRunner with a class as TensorFlow's compiler makes it (its functions, without TensorFlow).
#include "MLModelRunner/TFModelRunner.h"

#include <cstdint>
#include <iostream>
#include <string>
#include <vector>

using namespace MLBridge;

/// Sums an int64 scalar and a vector of floats.
class CompiledInliner {
public:
  int LookupArgIndex(const std::string &name) {
    return name == "feed_depth" ? 0 : name == "feed_weights" ? 1 : -1;
  }
  int LookupResultIndex(const std::string &name) {
    return name == "fetch_inlining_decision" ? 0 : -1;
  }
  void *arg_data(size_t i) { return i == 0 ? static_cast<void *>(&Depth) : Weights; }
  size_t arg_size(size_t i) const { return i == 0 ? sizeof Depth : sizeof Weights; }
  void *result_data(size_t) { return &Decision; }
  bool Run() {
    float sum = static_cast<float>(Depth);
    for (float w : Weights)
      sum += w;
    Decision = static_cast<int64_t>(sum);
    return true;
  }

private:
  int64_t Depth = 0, Decision = 0;
  float Weights[3] = {};
};

int main() {
  std::unique_ptr<MLModelRunner> MLRunner =
      std::make_unique<TFModelRunner<CompiledInliner>>("inlining_decision");
  std::pair<std::string, int64_t> p1("depth", 4);
  std::pair<std::string, std::vector<float>> p2("weights", {1, 2, 3});
  std::pair<std::string, int> unknown("what the model doesn't know", 3);
  MLRunner->populateFeatures(p1, unknown);
  MLRunner->populateFeatures(p2);
  std::cout << MLRunner->evaluate<int64_t>() << " " << MLRunner->status().toString() << "\n";
  std::pair<std::string, std::vector<float>> wrong("weights", {1, 2, 3, 4});
  MLRunner->populateFeatures(wrong);
  std::cout << MLRunner->evaluate<int64_t>() << " " << MLRunner->status().toString() << "\n";
  TFModelRunner<CompiledInliner> other("another_decision");
  std::cout << other.evaluate<int64_t>() << " " << other.status().toString() << "\n";
  TFModelRunner<NoopSavedModelImpl> none("inlining_decision");
  std::cout << isEmbeddedModelEvaluatorValid<NoopSavedModelImpl>() << none.evaluate<bool>() << "\n";
  return 0;
}
