// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Models with which ONNX Runtime alone gives wrong answers without a word, or ends the process.
#include "test_models.h"

#include "engine/native/test_models.h"

#include <mlbridge/model.h>

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

namespace mlbridge {
namespace {

using native::BoolType;
using native::FloatType;
using native::Graph;
using native::graphAttribute;
using native::info;
using native::Int64Type;
using native::integer;
using native::ModelFile;
using native::node;

const char *const Engines[] = {"onnx:", "native:"};
constexpr int StringType = 8;

/// A runner of the model's own signature.
Runner runnerOf(const std::string &uri) {
  Model model = Model::open(uri);
  if (!model || !model.bind(*model.modelSignature()))
    return Runner(model.status());
  return model.newRunner();
}

std::vector<float> read(Runner &runner, const std::string &name) {
  const Span<const float> values = runner.output<float>(name);
  return {values.begin(), values.end()};
}

Graph passingOn(const Shape &shape) {
  Graph g;
  g.inputs = {info("x", FloatType, shape), info("h", FloatType, shape)};
  g.outputs = {info("y", FloatType, shape), info("h", FloatType, shape)};
  g.nodes = {node("Neg", {"x"}, {"y"})};
  return g;
}

TEST(OnnxHazards, AnOutputThatIsAnInputHasTheInputsValue) {
  const ModelFile file(passingOn({2}));
  for (const std::string engine : Engines) {
    Runner runner = runnerOf(engine + file.path());
    const void *place = nullptr;
    for (const float k : {1.F, 2.F, 3.F}) {
      ASSERT_TRUE(runner.set("x", {k, 2 * k}));
      ASSERT_TRUE(runner.set("h", {10 * k, 20 * k}));
      ASSERT_TRUE(runner.evaluate()) << runner.status().toString();
      EXPECT_EQ(read(runner, "y"), (std::vector<float>{-k, -2 * k}));
      EXPECT_EQ(read(runner, "h"), (std::vector<float>{10 * k, 20 * k})) << engine;
      // It is a copy, and stays where it is.
      runner.input<float>("h")[0] = -1;
      EXPECT_EQ(runner.output<float>("h")[0], 10 * k);
      EXPECT_TRUE(!place || place == runner.output<float>("h").data());
      place = runner.output<float>("h").data();
    }
  }
}

TEST(OnnxHazards, AnOutputThatIsAnInputFollowsItsLengths) {
  const ModelFile file(passingOn({-1}));
  for (const std::string engine : Engines) {
    Runner runner = runnerOf(engine + file.path());
    for (const int64_t length : {2, 5, 1, 0, 3}) {
      const std::vector<float> x(size_t(length), 1.F), h(size_t(length), 7.F);
      ASSERT_TRUE(runner.resize<float>("x", {length}));
      ASSERT_TRUE(runner.resize<float>("h", {length}));
      if (length != 0) {
        ASSERT_TRUE(runner.set("x", x));
        ASSERT_TRUE(runner.set("h", h));
      }
      ASSERT_TRUE(runner.evaluate()) << engine << runner.status().toString();
      EXPECT_EQ(read(runner, "h"), h) << engine << length;
      if (length == 0)
        continue;
      // The input's memory may be given back while the output is still read.
      ASSERT_TRUE(runner.resize<float>("h", {1000}));
      EXPECT_EQ(read(runner, "h"), h) << engine << length;
    }
  }
}

TEST(OnnxHazards, AModelMayHaveNothingButInputs) {
  Graph g;
  g.inputs = g.outputs = {info("x", FloatType, {2}), info("t", StringType, {1})};
  const ModelFile file(g);
  Runner runner = runnerOf("onnx:" + file.path());
  ASSERT_TRUE(runner.set("x", {3.F, 4.F})) << runner.status().toString();
  runner.input<std::string>("t")[0] = "text";
  ASSERT_TRUE(runner.evaluate()) << runner.status().toString();
  EXPECT_EQ(read(runner, "x"), (std::vector<float>{3, 4}));
  EXPECT_EQ(runner.output<std::string>("t")[0], "text");
}

TEST(OnnxHazards, OutputsThatShareAValueOrAreConstantAreWritten) {
  Graph g;
  g.inputs = {info("x", FloatType, {2})};
  g.initializers = {native::floats("w", {2}, {5, 6})};
  for (const char *name : {"a", "b", "c", "w", "k", "x", "d"})
    g.outputs.push_back(info(name, FloatType, {2}));
  g.outputs.push_back(info("n", FloatType, {-1}));
  g.nodes = {node("Identity", {"x"}, {"a"}), node("Identity", {"a"}, {"b"}),
             node("Identity", {"b"}, {"c"}), node("Identity", {"w"}, {"k"}),
             node("Dropout", {"c"}, {"d"}),  node("Identity", {"x"}, {"n"})};
  const ModelFile file(g);
  for (const std::string engine : Engines) {
    Runner runner = runnerOf(engine + file.path());
    for (const float k : {1.F, 2.F}) {
      ASSERT_TRUE(runner.set("x", {k, -k})) << runner.status().toString();
      ASSERT_TRUE(runner.evaluate()) << runner.status().toString();
      for (const char *name : {"a", "b", "c", "d", "x", "n"})
        EXPECT_EQ(read(runner, name), (std::vector<float>{k, -k})) << engine << name;
      for (const char *name : {"w", "k"})
        EXPECT_EQ(read(runner, name), (std::vector<float>{5, 6})) << engine << name;
    }
  }
}

TEST(OnnxHazards, ATransposedMatrixTimesAVectorIsRight) {
  Graph g;
  g.inputs = {info("a", FloatType, {2, 3}), info("v", FloatType, {2})};
  g.outputs = {info("y", FloatType, {3})};
  g.nodes = {node("Transpose", {"a"}, {"t"}), node("MatMul", {"t", "v"}, {"y"})};
  const ModelFile file(g);
  for (const std::string &uri :
       {"onnx:" + file.path(), "onnx:" + file.path() + "?optimize=extended",
        "native:" + file.path()}) {
    Runner runner = runnerOf(uri);
    ASSERT_TRUE(runner.set("a", {1, 2, 3, 4, 5, 6})) << runner.status().toString();
    ASSERT_TRUE(runner.set("v", {1, 10}));
    ASSERT_TRUE(runner.evaluate()) << runner.status().toString();
    EXPECT_EQ(read(runner, "y"), (std::vector<float>{41, 52, 63})) << uri;
  }
}

/// A layer of 2 units over `x`, float32[steps, rows, 3].
std::string layer(const std::string &op, const std::string &x, const std::string &y) {
  return node(op, {x, "w" + op, "r" + op}, {"", y}, {integer("hidden_size", 2)}, "layer");
}
std::vector<std::string> weightsOf(const std::string &op) {
  const int64_t gates = op == "LSTM" ? 4 : op == "GRU" ? 3 : 1;
  return {native::floats("w" + op, {1, 2 * gates, 3}, std::vector<float>(size_t(6 * gates), 0.25F)),
          native::floats("r" + op, {1, 2 * gates, 2}, std::vector<float>(size_t(4 * gates), 0.5F))};
}

void expectRefused(Runner &runner, const std::string &layerName) {
  const Status status = runner.evaluate();
  EXPECT_EQ(status.code(), Code::PolicyFailed);
  EXPECT_NE(status.message().find(layerName + " got a sequence without steps or rows"),
            std::string::npos)
      << status.toString();
}

TEST(OnnxHazards, ARecurrentLayerOverNothingIsAnError) {
  for (const std::string op : {"GRU", "LSTM", "RNN"}) {
    Graph g;
    g.inputs = {info("x", FloatType, {-1, -1, 3})};
    g.outputs = {info("h", FloatType, {1, -1, 2})};
    g.initializers = weightsOf(op);
    g.nodes = {layer(op, "x", "h")};
    const ModelFile file(g);
    Runner runner = runnerOf("onnx:" + file.path());
    Runner other = runnerOf("native:" + file.path());
    for (const auto &[steps, rows] : {std::pair{2, 2}, {0, 2}, {2, 0}, {0, 0}, {1, 1}, {3, 2}}) {
      const std::vector<float> x(size_t(steps) * size_t(rows) * 3, 0.5F);
      for (Runner *each : {&runner, &other}) {
        ASSERT_TRUE(each->resize<float>("x", {steps, rows, 3})) << each->status().toString();
        if (!x.empty()) {
          ASSERT_TRUE(each->set("x", x));
        }
      }
      EXPECT_TRUE(other.evaluate()) << other.status().toString();
      if (x.empty()) {
        expectRefused(runner, op + " 'layer'");
        continue;
      }
      ASSERT_TRUE(runner.evaluate()) << runner.status().toString();
      const std::vector<float> got = read(runner, "h"), expected = read(other, "h");
      ASSERT_EQ(got.size(), expected.size());
      for (size_t i = 0; i < got.size(); ++i)
        EXPECT_NEAR(got[i], expected[i], 1e-6) << op;
    }
  }
}

TEST(OnnxHazards, ALengthThatTheGraphComputesIsGuardedToo) {
  // The steps are the rows of x that `take` keeps.
  Graph g;
  g.inputs = {info("x", FloatType, {2, 1, 3}), info("take", BoolType, {2})};
  g.outputs = {info("h", FloatType, {1, 1, 2})};
  g.initializers = weightsOf("GRU");
  g.nodes = {node("Compress", {"x", "take"}, {"kept"}, {integer("axis", 0)}),
             layer("GRU", "kept", "h")};
  const ModelFile file(g);
  Runner runner = runnerOf("onnx:" + file.path());
  ASSERT_TRUE(runner) << runner.status().toString();
  runner.input<bool>("take")[1] = true;
  EXPECT_TRUE(runner.evaluate()) << runner.status().toString();
  runner.input<bool>("take")[1] = false;
  expectRefused(runner, "GRU 'layer'");
}

TEST(OnnxHazards, ALayerInABranchIsGuardedToo) {
  Graph then, otherwise, g;
  then.outputs = {info("t", FloatType, {1, -1, 2})};
  then.nodes = {layer("GRU", "x", "t")};
  otherwise.outputs = {info("e", FloatType, {1, -1, 2})};
  otherwise.nodes = {layer("LSTM", "x", "e")};
  g.inputs = {info("x", FloatType, {-1, -1, 3}), info("c", BoolType, {})};
  g.outputs = {info("h", FloatType, {1, -1, 2})};
  g.initializers = weightsOf("GRU");
  for (const std::string &more : weightsOf("LSTM"))
    g.initializers.push_back(more);
  g.nodes = {node("If", {"c"}, {"h"},
                  {graphAttribute("then_branch", then.write()),
                   graphAttribute("else_branch", otherwise.write())})};
  const ModelFile file(g);
  Runner runner = runnerOf("onnx:" + file.path());
  ASSERT_TRUE(runner) << runner.status().toString();
  for (const bool c : {true, false}) {
    runner.input<bool>("c")[0] = c;
    ASSERT_TRUE(runner.resize<float>("x", {1, 1, 3}));
    EXPECT_TRUE(runner.evaluate()) << runner.status().toString();
    ASSERT_TRUE(runner.resize<float>("x", {1, 0, 3}));
    expectRefused(runner, c ? "GRU 'layer'" : "LSTM 'layer'");
  }
}

TEST(OnnxHazards, AnInputWithADefaultIsNotReplacedInSilence) {
  Graph g;
  g.inputs = {info("x", FloatType, {2}), info("scale", FloatType, {1})};
  g.outputs = {info("y", FloatType, {2})};
  g.initializers = {native::floats("scale", {1}, {3})};
  g.nodes = {node("Mul", {"x", "scale"}, {"y"})};
  const ModelFile file(g);
  const Signature less{{TensorSpec::of<float>("x", {2})}, {TensorSpec::of<float>("y", {2})}};
  Signature more = less, unrelated = less;
  more.inputs.push_back(TensorSpec::of<float>("scale", {1}));
  unrelated.inputs.push_back(TensorSpec::of<float>("scal", {1}));
  for (const std::string engine : Engines) {
    Model model = Model::open(engine + file.path());
    EXPECT_EQ(model.metadata("onnx.defaults"), "scale") << model.status().toString();
    EXPECT_TRUE(model.bind(less));
    EXPECT_TRUE(model.bind(unrelated));
    const Status refused = model.bind(more);
    EXPECT_EQ(refused.code(), Code::Mismatch);
    EXPECT_NE(refused.message().find("the pass gives 'scale', for which the model has a default"),
              std::string::npos)
        << refused.toString();
    // It is not the default of another input that was given this name.
    EXPECT_TRUE(Model::open(engine + file.path() + "?rename=scale:x")
                    .bind({{TensorSpec::of<float>("scale", {2})}, less.outputs}));
  }
}

/// A value whose rank nobody states.
std::string unranked(const std::string &name) {
  using native::Message;
  return Message()
      .bytes(1, name)
      .bytes(2, Message().bytes(1, Message().number(1, FloatType).text).text)
      .text;
}

TEST(OnnxHazards, AnUnknownRankIsNoScalar) {
  Graph input = native::smallNetwork();
  input.inputs = {unranked("x")};
  Graph output;
  output.inputs = {info("x", FloatType, {6}), info("shape", Int64Type, {-1})};
  output.outputs = {unranked("y")};
  output.nodes = {node("Reshape", {"x", "shape"}, {"y"})};
  for (const std::string engine : Engines) {
    for (const Graph *graph : {&input, &output}) {
      const ModelFile file(*graph);
      const Status status = Model::open(engine + file.path()).status();
      EXPECT_EQ(status.code(), Code::Unsupported) << engine;
      EXPECT_NE(status.message().find("has no shape"), std::string::npos) << status.toString();
      EXPECT_NE(status.message().find(graph == &input ? "input 'x'" : "output 'y'"),
                std::string::npos)
          << status.toString();
    }
    // A shape that follows from the graph need not be stated.
    Graph known = native::smallNetwork();
    known.outputs = {unranked("y"), unranked("s")};
    known.nodes.push_back(node("ReduceSum", {"y"}, {"s"}, {integer("keepdims", 0)}));
    const ModelFile file(known);
    const Model model = Model::open(engine + file.path());
    ASSERT_TRUE(model) << model.status().toString();
    EXPECT_EQ(model.modelSignature()->toString(),
              "(x: float32[1, 2]) -> (y: float32[1, 1], s: float32)");
  }
}

TEST(OnnxHazards, AStatedBatchThatDoesNotComeIsNamed) {
  Graph g;
  g.inputs = {info("x", FloatType, {-1, 2})};
  g.outputs = {info("y", FloatType, {32, 2})};
  g.nodes = {node("Neg", {"x"}, {"y"})};
  const ModelFile file(g);
  for (const std::string engine : Engines) {
    Model model = Model::open(engine + file.path());
    ASSERT_TRUE(model) << model.status().toString();
    const Status refused =
        model.bind({{TensorSpec::of<float>("x", {2})}, {TensorSpec::of<float>("y", {2})}});
    EXPECT_EQ(refused.code(), Code::Mismatch);
    EXPECT_NE(refused.message().find("a batch of 32"), std::string::npos) << refused.toString();
    Runner runner = runnerOf(engine + file.path());
    ASSERT_TRUE(runner.resize<float>("x", {5, 2}));
    const Status failed = runner.evaluate();
    EXPECT_EQ(failed.code(), Code::PolicyFailed);
    EXPECT_NE(failed.message().find("output"), std::string::npos) << failed.toString();
    EXPECT_NE(failed.message().find("[32, 2]"), std::string::npos) << failed.toString();
    EXPECT_EQ(failed.message().find(".cc:"), std::string::npos) << failed.toString();
    ASSERT_TRUE(runner.resize<float>("x", {32, 2}));
    EXPECT_TRUE(runner.evaluate()) << runner.status().toString();
  }
}

} // namespace
} // namespace mlbridge
