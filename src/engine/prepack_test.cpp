// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "engine/onnx_format.h"

#include "engine/native/test_models.h"

#include <gtest/gtest.h>

using namespace mlbridge;
using namespace mlbridge::native;

namespace {

struct Layer {
  int64_t rows, columns;
  bool transposed = false;
};

std::string modelWith(const std::vector<Layer> &layers, const std::string &op = "Gemm",
                      int type = FloatType) {
  Graph graph;
  for (const Layer &layer : layers) {
    const std::string weights = "w" + std::to_string(graph.nodes.size());
    Shape shape{layer.rows, layer.columns};
    if (layer.transposed)
      std::swap(shape[0], shape[1]);
    graph.initializers.push_back(tensorOf(type, weights, shape, ""));
    graph.nodes.push_back(node(op, {"x", weights}, {"y"},
                               {integer("transA", 0), integer("transB", layer.transposed)}));
  }
  return modelOf(graph);
}

bool pays(const std::string &model) {
  return engine::paysToPrepack({reinterpret_cast<const uint8_t *>(model.data()), model.size()});
}

TEST(Prepack, PaysForManyWeightsInWideMatrices) {
  EXPECT_TRUE(pays(modelWith({{300, 256, true}, {256, 128, true}, {128, 15, true}})));
  EXPECT_TRUE(pays(modelWith({{50000, 64}}, "MatMul")));
  EXPECT_TRUE(pays(modelWith({{2048, 16}})));
}

TEST(Prepack, DoesNotPayForFewWeights) {
  EXPECT_FALSE(pays(modelWith({{2048, 15}})));
  EXPECT_FALSE(pays(modelWith({})));
}

TEST(Prepack, DoesNotPayWhereMostWouldBePadding) {
  EXPECT_FALSE(pays(modelWith({{50000, 1, true}})));
  EXPECT_FALSE(pays(modelWith({{50000, 1}}, "MatMul")));
  // Transposed the same matrix is wide.
  EXPECT_TRUE(pays(modelWith({{1, 50000}})));
}

/// A recurrent layer of 8 units over 16 features, with a fully connected layer beside it.
std::string recurrent(const std::string &op, int64_t gates, const Shape &beside) {
  Graph graph;
  graph.initializers.push_back(tensorOf(FloatType, "w", {1, gates * 8, 16}, ""));
  graph.initializers.push_back(tensorOf(FloatType, "r", {1, gates * 8, 8}, ""));
  graph.initializers.push_back(tensorOf(FloatType, "b", beside, ""));
  graph.nodes.push_back(node(op, {"x", "w", "r"}, {"y"}));
  graph.nodes.push_back(node("MatMul", {"x", "b"}, {"z"}));
  return modelOf(graph);
}

TEST(Prepack, PaysForGatesHoweverFew) {
  EXPECT_TRUE(pays(recurrent("LSTM", 4, {8, 16})));
  EXPECT_TRUE(pays(recurrent("GRU", 3, {8, 16})));
  EXPECT_FALSE(pays(recurrent("RNN", 1, {8, 16}))) << "it has no gates";
  EXPECT_FALSE(pays(recurrent("LSTM", 4, {50000, 1}))) << "most would be padding";
  Graph computed; // its weights are no constants
  computed.nodes.push_back(node("LSTM", {"x", "w", "r"}, {"y"}));
  computed.nodes.push_back(node("GRU", {"x"}, {"z"}));
  EXPECT_FALSE(pays(modelOf(computed)));
}

TEST(Prepack, CountsWhatIsMultipliedOnly) {
  EXPECT_FALSE(pays(modelWith({{300, 256}}, "Add")));
  EXPECT_FALSE(pays(modelWith({{300, 256}}, "Gemm", Int64Type)));
  Graph apart; // the matrix is the left factor
  apart.initializers.push_back(tensorOf(FloatType, "w", {300, 256}, ""));
  apart.nodes.push_back(node("MatMul", {"w", "x"}, {"y"}));
  EXPECT_FALSE(pays(modelOf(apart)));
}

TEST(Prepack, TakesAnyBytes) {
  EXPECT_FALSE(pays(""));
  EXPECT_FALSE(pays("ORTM is another format"));
  EXPECT_FALSE(pays(modelWith({{-1, -1}, {int64_t(1) << 62, int64_t(1) << 62}})));
  const std::string whole = modelWith({{300, 256, true}, {256, 128, true}});
  for (size_t size = 0; size < whole.size(); ++size)
    pays(whole.substr(0, size));
  EXPECT_TRUE(pays(whole));
}

} // namespace
