// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The native engine as a pass sees it. What each operator computes is the business of
// tests/onnx-nodes.
#include "engine/native/network.h"
#include "engine/native/test_models.h"
#include "testing/built.h"

#include <mlbridge/model.h>

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <thread>

namespace mlbridge {
namespace {

using namespace native;

std::string golden(const std::string &name) {
  return "native:" + testing::sourceFile("tests/golden/onnx/" + name + ".onnx");
}

/// A runner for the model's own signature.
Runner runnerOf(const Model &opened) {
  Model model = opened;
  if (model && model.modelSignature())
    (void)model.bind(Signature(*model.modelSignature()));
  return model.newRunner();
}
Runner runnerOf(const ModelFile &file) { return runnerOf(Model::open(file.uri())); }

Expected<std::shared_ptr<const Plan>> planOf(const std::string &path,
                                             const std::vector<Shape> &shapes) {
  Expected<std::shared_ptr<Network>> network = Network::open(path, toolLimits());
  return network ? (*network)->plan(shapes, Deadline()) : network.status();
}

TEST(Native, RunsANetworkAndKeepsItsWeightsOnce) {
  const ModelFile file(smallNetwork());
  const Model model = Model::open(file.uri());
  ASSERT_TRUE(model) << model.status().toString();
  EXPECT_EQ(model.modelSignature()->toString(), "(x: float32[1, 2]) -> (y: float32[1, 1])");
  EXPECT_EQ(model.metadata("note"), "hello");
  Runner runner = runnerOf(model);
  ASSERT_TRUE(runner.set("x", {2.0F, -1.0F}));
  ASSERT_TRUE(runner.evaluate()) << runner.status().toString();
  // a = [1.5, 7, -6], + b1 and Relu: [2, 8, 0]; 4 - 8 + 10
  EXPECT_EQ(runner.output<float>("y")[0], 6.0F);
}

TEST(Native, FusesWhatIsFollowedByABiasAndAnActivation) {
  const ModelFile file(smallNetwork());
  Expected<std::shared_ptr<const Plan>> planned = planOf(file.path(), {{1, 2}});
  ASSERT_TRUE(planned) << planned.status().toString();
  EXPECT_EQ((*planned)->steps.size(), 2u);
  EXPECT_EQ((*planned)->multiplyAdds, 9u);
}

TEST(Native, AnActivationOfWhatSomebodyElseReadsIsNotFused) {
  Graph g = smallNetwork();
  g.outputs.push_back(info("b", FloatType, {1, 3}));
  const ModelFile file(g);
  Runner runner = runnerOf(file);
  ASSERT_TRUE(runner.set("x", {2.0F, -1.0F}));
  ASSERT_TRUE(runner.evaluate()) << runner.status().toString();
  EXPECT_EQ(runner.output<float>("b")[2], -8.0F);
  EXPECT_EQ(runner.output<float>("y")[0], 6.0F);
}

TEST(Native, RaisesToAConstantAsToAnInput) {
  const float infinity = std::numeric_limits<float>::infinity();
  const std::vector<float> xs = {infinity, -infinity, std::nanf(""), 0, -0.0F, 1, -1, 2.5F, -2.5F};
  for (const float e :
       {0.0F, 1.0F, 2.0F, 3.0F, -1.0F, -2.0F, 0.5F, -0.5F, infinity, -infinity, std::nanf("")}) {
    Graph g;
    g.inputs = {info("x", FloatType, {9})};
    g.outputs = {info("y", FloatType, {9})};
    g.initializers = {floats("e", {}, {e})};
    g.nodes = {node("Pow", {"x", "e"}, {"y"})};
    const ModelFile file(g);
    Runner runner = runnerOf(file);
    ASSERT_TRUE(runner.set("x", xs));
    ASSERT_TRUE(runner.evaluate()) << runner.status().toString();
    for (size_t i = 0; i < xs.size(); ++i) {
      const float got = runner.output<float>("y")[i], wanted = std::pow(xs[i], e);
      EXPECT_EQ(std::isnan(got), std::isnan(wanted)) << xs[i] << " to the " << e;
      if (std::isnan(wanted))
        continue;
      EXPECT_FLOAT_EQ(got, wanted) << xs[i] << " to the " << e;
      EXPECT_EQ(std::signbit(got), std::signbit(wanted)) << xs[i] << " to the " << e;
    }
  }
}

TEST(Native, FoldsWhatIsConstant) {
  Graph g;
  g.inputs = {info("x", FloatType, {2})};
  g.outputs = {info("y", FloatType, {2})};
  g.initializers = {floats("c", {2}, {1, 4})};
  g.nodes = {node("Sqrt", {"c"}, {"r"}), node("Exp", {"c"}, {"unused"}),
             node("Add", {"x", "r"}, {"y"})};
  const ModelFile file(g);
  Expected<std::shared_ptr<const Plan>> planned = planOf(file.path(), {{2}});
  ASSERT_TRUE(planned) << planned.status().toString();
  EXPECT_EQ((*planned)->steps.size(), 1u);
}

// Quantiles, as MLGO's policies have them: how many bounds a feature has reached.
TEST(Native, CountsWhatIsComparedAtOnce) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  std::vector<float> bounds;
  for (int i = 0; i < 80; ++i)
    bounds.push_back(i == 70 ? nan : static_cast<float>(i % 40));
  for (const std::string kind : {"Less", "LessOrEqual", "Greater", "GreaterOrEqual"})
    for (const bool keep : {false, true}) {
      Graph g;
      g.inputs = {info("x", FloatType, {3, 1, 1})};
      g.outputs = {info("y", FloatType, keep ? Shape{3, 1, 1} : Shape{3})};
      g.initializers = {floats("bounds", {2, 40}, bounds), ints("axes", {2}, {1, -1})};
      g.nodes = {node(kind, {"x", "bounds"}, {"above"}),
                 node("Cast", {"above"}, {"ones"}, {integer("to", FloatType)}),
                 node("ReduceSum", {"ones", "axes"}, {"y"}, {integer("keepdims", keep)})};
      const ModelFile file(g);
      Expected<std::shared_ptr<const Plan>> planned = planOf(file.path(), {{3, 1, 1}});
      ASSERT_TRUE(planned) << planned.status().toString();
      EXPECT_EQ((*planned)->steps.size(), 1u);
      Runner runner = runnerOf(file);
      const std::vector<float> x{5, nan, 39};
      ASSERT_TRUE(runner.set("x", x));
      ASSERT_TRUE(runner.evaluate()) << runner.status().toString();
      for (size_t i = 0; i < x.size(); ++i) {
        float expected = 0;
        for (const float bound : bounds)
          expected += kind == "Less"          ? x[i] < bound
                      : kind == "LessOrEqual" ? x[i] <= bound
                      : kind == "Greater"     ? x[i] > bound
                                              : x[i] >= bound;
        EXPECT_EQ(runner.output<float>("y")[i], expected) << kind << " " << i;
      }
    }
}

TEST(Native, TakesLengthsThatChange) {
  Runner runner = runnerOf(Model::open(golden("dynamic")));
  for (const int64_t n : {3, 1, 40, 0, 3}) {
    Expected<Span<float>> nodes = runner.resize<float>("nodes", {n, 2});
    ASSERT_TRUE(nodes) << nodes.status().toString();
    for (float &value : *nodes)
      value = 1.5F;
    ASSERT_TRUE(runner.evaluate()) << runner.status().toString();
    EXPECT_EQ(runner.output<float>("doubled").size(), static_cast<size_t>(2 * n));
    EXPECT_EQ(runner.output<float>("total")[1], 1.5F * static_cast<float>(n));
  }
}

TEST(Native, ShapesMayDependOnValues) {
  Runner runner = runnerOf(Model::open(golden("nonzero")));
  for (const std::vector<float> &x :
       {std::vector<float>{0, 2, 0, 3}, {1, 1, 1, 1}, {0, 0, 0, 0}, {0, 5, 0, 1}}) {
    ASSERT_TRUE(runner.set("x", x));
    ASSERT_TRUE(runner.evaluate()) << runner.status().toString();
    std::vector<int64_t> expected;
    for (size_t i = 0; i < x.size(); ++i)
      if (x[i] != 0)
        expected.push_back(static_cast<int64_t>(i));
    const Span<const int64_t> places = runner.output<int64_t>("where");
    EXPECT_EQ(std::vector<int64_t>(places.begin(), places.end()), expected);
  }
}

TEST(Native, AShapeOtherThanDeclaredIsAnError) {
  Runner runner = runnerOf(Model::open(golden("lies-fixed")));
  ASSERT_TRUE(runner.set("shape", {int64_t(4), int64_t(1)}));
  EXPECT_EQ(runner.evaluate().code(), Code::PolicyFailed);
  ASSERT_TRUE(runner.set("shape", {int64_t(2), int64_t(2)}));
  EXPECT_TRUE(runner.evaluate()) << runner.status().toString();
  ASSERT_TRUE(runner.set("shape", {int64_t(3), int64_t(2)}));
  EXPECT_FALSE(runner.evaluate());
}

TEST(Native, AnIndexOutOfRangeNamesItsNode) {
  Runner runner = runnerOf(Model::open(golden("gather")));
  ASSERT_TRUE(runner.set("data", {1.0F, 2.0F, 3.0F}));
  ASSERT_TRUE(runner.set("index", {int64_t(3)}));
  const Status status = runner.evaluate();
  EXPECT_EQ(status.code(), Code::PolicyFailed);
  EXPECT_NE(status.message().find("Gather"), std::string::npos) << status.message();
  ASSERT_TRUE(runner.set("index", {int64_t(-1)}));
  ASSERT_TRUE(runner.evaluate());
  EXPECT_EQ(runner.output<float>("y")[0], 3.0F);
}

TEST(Native, HonoursInfinitiesAndNaN) {
  Runner runner = runnerOf(Model::open(golden("log")));
  ASSERT_TRUE(runner.set("x", {0.0F, -1.0F, 1.0F}));
  ASSERT_TRUE(runner.evaluate());
  const Span<const float> y = runner.output<float>("y");
  EXPECT_EQ(y[0], -std::numeric_limits<float>::infinity());
  EXPECT_NE(y[1], y[1]);
  EXPECT_EQ(y[2], 0.0F);
}

TEST(Native, TakesEveryElementType) {
  const Model model = Model::open(golden("types"));
  ASSERT_TRUE(model) << model.status().toString();
  Runner runner = runnerOf(model);
  ASSERT_TRUE(runner.set("uint64", {uint64_t(1) << 63, uint64_t(7)}));
  ASSERT_TRUE(runner.set("bool", {false, true}));
  ASSERT_TRUE(runner.evaluate()) << runner.status().toString();
  EXPECT_EQ(runner.output<uint64_t>("uint64_out")[0], uint64_t(1) << 63);
  EXPECT_TRUE(runner.output<bool>("bool_out")[1]);
}

TEST(Native, NamesWhatItLacks) {
  Graph g = smallNetwork();
  g.nodes[2] = node("ImageDecoder", {"b"}, {"h"}, {}, "middle");
  const ModelFile file(g);
  const Model model = Model::open(file.uri());
  EXPECT_EQ(model.status().code(), Code::Unsupported);
  for (const std::string &part :
       {std::string("'middle'"), std::string("ImageDecoder"), std::string("17"), file.path()})
    EXPECT_NE(model.status().message().find(part), std::string::npos) << model.status().message();
  Expected<Inspection> report = inspect(file.path());
  ASSERT_TRUE(report) << report.status().toString();
  EXPECT_EQ(report->native.code(), Code::Unsupported);
  EXPECT_EQ(report->parameters, 13u);
  ASSERT_EQ(report->operators.size(), 4u);
  EXPECT_EQ(report->operators[2].op, "ImageDecoder");
  EXPECT_FALSE(report->operators[2].isSupported);
}

TEST(Native, RefusesOptionsThatItDoesNotHave) {
  const ModelFile file(smallNetwork());
  const Model model = Model::open(file.uri() + "?speed=11");
  EXPECT_EQ(model.status().code(), Code::InvalidArgument);
  EXPECT_NE(model.status().message().find("'speed'"), std::string::npos);
}

// ---- control flow ------------------------------------------------------------------------------

Graph branch(const std::string &op) {
  Graph g;
  g.nodes = {node(op, {"x", "x"}, {"r"})};
  g.outputs = {info("r", FloatType, {2})};
  return g;
}

TEST(Native, IfTakesTheBranchOfItsCondition) {
  Graph g;
  g.inputs = {info("c", BoolType, {}), info("x", FloatType, {2})};
  g.outputs = {info("y", FloatType, {2})};
  g.nodes = {node("If", {"c"}, {"y"},
                  {graphAttribute("then_branch", branch("Add").write()),
                   graphAttribute("else_branch", branch("Mul").write())})};
  const ModelFile file(g);
  Runner runner = runnerOf(file);
  ASSERT_TRUE(runner.set("x", {3.0F, 5.0F}));
  for (const bool condition : {true, false, true}) {
    ASSERT_TRUE(runner.set("c", condition));
    ASSERT_TRUE(runner.evaluate()) << runner.status().toString();
    EXPECT_EQ(runner.output<float>("y")[1], condition ? 10.0F : 25.0F);
  }
}

/// Doubles `x` in each of `n` rounds, and gives each round's number.
Graph doubling(bool endless) {
  Graph body;
  body.inputs = {info("i", Int64Type, {}), info("go", BoolType, {}), info("v", FloatType, {1})};
  body.outputs = {info("go", BoolType, {}), info("w", FloatType, {1})};
  body.nodes = {node("Add", {"v", "v"}, {"w"})};
  Graph g;
  g.inputs = {info("n", Int64Type, {}), info("x", FloatType, {1})};
  g.outputs = {info("y", FloatType, {1})};
  if (!endless) {
    body.nodes.push_back(node("Identity", {"i"}, {"each"}));
    body.outputs.push_back(info("each", Int64Type, {}));
    g.outputs.push_back(info("rounds", Int64Type, {-1}));
  }
  std::vector<std::string> results{"y"};
  if (!endless)
    results.emplace_back("rounds");
  g.nodes = {
      node("Loop", {endless ? "" : "n", "", "x"}, results, {graphAttribute("body", body.write())})};
  return g;
}

TEST(Native, LoopsAsOftenAsItsInputSays) {
  const ModelFile file(doubling(false));
  Runner runner = runnerOf(file);
  for (const int64_t n : {5, 0, 1, 5}) {
    ASSERT_TRUE(runner.set("x", {1.0F}));
    ASSERT_TRUE(runner.set("n", n));
    ASSERT_TRUE(runner.evaluate()) << runner.status().toString();
    EXPECT_EQ(runner.output<float>("y")[0], static_cast<float>(1 << n));
    const Span<const int64_t> rounds = runner.output<int64_t>("rounds");
    ASSERT_EQ(rounds.size(), static_cast<size_t>(n));
    for (size_t i = 0; i < rounds.size(); ++i)
      EXPECT_EQ(rounds[i], static_cast<int64_t>(i));
  }
}

TEST(Native, ALoopWhoseListNobodyReadsKeepsItsCounter) {
  Graph g = doubling(false);
  g.outputs.pop_back();
  const ModelFile file(g);
  Runner runner = runnerOf(file);
  ASSERT_TRUE(runner.set("x", {1.0F}));
  ASSERT_TRUE(runner.set("n", int64_t(3)));
  ASSERT_TRUE(runner.evaluate()) << runner.status().toString();
  EXPECT_EQ(runner.output<float>("y")[0], 8.0F);
}

// Its condition and what it carries are this round's own, exchanged for each other.
TEST(Native, ALoopMayGiveOutWhatItWasGiven) {
  Graph body;
  body.inputs = {info("i", Int64Type, {}), info("go", BoolType, {}), info("flag", BoolType, {}),
                 info("a", FloatType, {1}), info("b", FloatType, {1})};
  body.outputs = {info("still", BoolType, {}), info("turned", BoolType, {}),
                  info("b", FloatType, {1}), info("a", FloatType, {1})};
  body.nodes = {node("Identity", {"flag"}, {"still"}), node("Not", {"flag"}, {"turned"})};
  Graph g;
  g.inputs = {info("flag0", BoolType, {}), info("x", FloatType, {1}), info("y", FloatType, {1})};
  g.outputs = {info("end", BoolType, {}), info("p", FloatType, {1}), info("q", FloatType, {1})};
  g.initializers = {ints("n", {}, {5})};
  g.nodes = {node("Loop", {"n", "", "flag0", "x", "y"}, {"end", "p", "q"},
                  {graphAttribute("body", body.write())})};
  const ModelFile file(g);
  Runner runner = runnerOf(file);
  ASSERT_TRUE(runner.set("x", {1.0F}));
  ASSERT_TRUE(runner.set("y", {2.0F}));
  for (const bool flag : {true, false, true}) { // two rounds, or one
    ASSERT_TRUE(runner.set("flag0", flag));
    ASSERT_TRUE(runner.evaluate()) << runner.status().toString();
    EXPECT_TRUE(runner.output<bool>("end")[0]);
    EXPECT_EQ(runner.output<float>("p")[0], flag ? 1.0F : 2.0F);
    EXPECT_EQ(runner.output<float>("q")[0], flag ? 2.0F : 1.0F);
  }
}

TEST(Native, ALoopThatIsToEndGivesAsManyEntriesAsItHadRounds) {
  for (const bool first : {true, false}) {
    Graph g = doubling(false);
    const char no = 0;
    g.inputs = {info("x", FloatType, {1})};
    g.initializers = {ints("n", {}, {5}), tensorOf(BoolType, "no", {}, {&no, 1})};
    Graph body;
    body.inputs = {info("i", Int64Type, {}), info("go", BoolType, {}), info("v", FloatType, {1})};
    body.outputs = {info(first ? "go" : "no", BoolType, {}), info("v", FloatType, {1}),
                    info("i", Int64Type, {})};
    g.nodes = {node("Loop", {"n", first ? "no" : "", "x"}, {"y", "rounds"},
                    {graphAttribute("body", body.write())})};
    const ModelFile file(g);
    Runner runner = runnerOf(file);
    ASSERT_TRUE(runner.evaluate()) << runner.status().toString();
    EXPECT_EQ(runner.output<int64_t>("rounds").size(), first ? 0u : 1u);
  }
}

TEST(Native, AnEmptyShapeIsAScalar) {
  Graph g;
  g.inputs = {info("x", FloatType, {1, 1})};
  g.outputs = {info("y", FloatType, {})};
  g.initializers = {ints("shape", {0}, {})};
  g.nodes = {node("Reshape", {"x", "shape"}, {"y"})};
  const ModelFile file(g);
  Runner runner = runnerOf(file);
  ASSERT_TRUE(runner.set("x", {4.0F}));
  EXPECT_EQ(runner.evaluate<float>().valueOr(0), 4.0F) << runner.status().toString();
}

TEST(Native, ALoopWithoutEndHoldsTheDeadline) {
  const ModelFile file(doubling(true));
  Runner runner = runnerOf(file);
  ASSERT_TRUE(runner.set("x", {1.0F}));
  const Status status = runner.evaluate(Deadline::after(std::chrono::milliseconds(20)));
  EXPECT_EQ(status.code(), Code::DeadlineExceeded) << status.toString();
}

// ---- values on which shapes depend -------------------------------------------------------------

TEST(Native, PlansAnewWhenAValueChanges) {
  Graph g;
  g.inputs = {info("x", FloatType, {6}), info("s", Int64Type, {2})};
  g.outputs = {info("y", FloatType, {-1, -1})};
  g.nodes = {node("Reshape", {"x", "s"}, {"y"})};
  const ModelFile file(g);
  Runner runner = runnerOf(file);
  for (const int64_t rows : {2, 3, 2, 6, 1, 2}) {
    ASSERT_TRUE(runner.set("s", {rows, 6 / rows}));
    ASSERT_TRUE(runner.set("x", std::vector<float>(6, static_cast<float>(rows))));
    ASSERT_TRUE(runner.evaluate()) << runner.status().toString();
    EXPECT_EQ(runner.outputAt(0).shape[0], rows);
    EXPECT_EQ(runner.output<float>("y")[5], static_cast<float>(rows));
  }
  ASSERT_TRUE(runner.set("s", {int64_t(4), int64_t(2)}));
  EXPECT_EQ(runner.evaluate().code(), Code::InvalidModel);
  ASSERT_TRUE(runner.set("s", {int64_t(3), int64_t(2)}));
  EXPECT_TRUE(runner.evaluate()) << "a failure stays";
}

TEST(Native, AValueOfAConstantIsKnownWhenItIsOpened) {
  Graph g;
  g.inputs = {info("s", Int64Type, {1})};
  g.outputs = {info("y", FloatType, {-1, -1, -1})};
  g.initializers = {floats("c", {3}, {1, 0, 2})};
  g.nodes = {node("NonZero", {"c"}, {"n"}), node("Shape", {"n"}, {"m"}),
             node("Concat", {"m", "s"}, {"t"}, {integer("axis", 0)}),
             node("ConstantOfShape", {"t"}, {"y"})};
  const ModelFile file(g);
  Runner runner = runnerOf(file);
  for (const int64_t length : {3, 1, 3}) {
    ASSERT_TRUE(runner.set("s", {length}));
    ASSERT_TRUE(runner.evaluate()) << runner.status().toString();
    EXPECT_EQ(runner.output<float>("y").size(), static_cast<size_t>(2 * length));
  }
}

/// A refusal at opening names the node and the engine that runs it.
void expectUnsettled(const Graph &g, const std::string &node) {
  const ModelFile file(g);
  const Status status = Model::open(file.uri()).status();
  EXPECT_EQ(status.code(), Code::Unsupported) << status.toString();
  EXPECT_NE(status.message().find("'" + node + "'"), std::string::npos) << status.toString();
  EXPECT_NE(status.message().find("onnx:"), std::string::npos) << status.toString();
}

TEST(Native, RefusesChainsOfShapesByValue) {
  Graph g;
  g.inputs = {info("x", FloatType, {6}), info("s", Int64Type, {2})};
  g.outputs = {info("y", FloatType, {-1, -1})};
  g.nodes = {node("Reshape", {"x", "s"}, {"r"}), node("Shape", {"r"}, {"t"}),
             node("ConstantOfShape", {"t"}, {"y"}, {}, "second")};
  expectUnsettled(g, "second");
  g.inputs[0] = info("x", FloatType, {-1});
  expectUnsettled(g, "second");
  g.nodes = {node("NonZero", {"x"}, {"n"}), node("NonZero", {"n"}, {"y"}, {}, "second")};
  g.inputs = {info("x", FloatType, {6})};
  g.outputs = {info("y", Int64Type, {2, -1})};
  expectUnsettled(g, "second");
}

TEST(Native, RefusesLoopsOfShapesByValue) {
  Graph body;
  body.inputs = {info("i", Int64Type, {}), info("go", BoolType, {}), info("v", FloatType, {-1})};
  body.outputs = {info("go", BoolType, {}), info("w", FloatType, {-1}), info("i2", Int64Type, {})};
  body.nodes = {node("Concat", {"v", "v"}, {"w"}, {integer("axis", 0)}),
                node("Identity", {"i"}, {"i2"})};
  Graph g;
  g.inputs = {info("n", Int64Type, {}), info("x", FloatType, {1})};
  g.outputs = {info("y", FloatType, {-1}), info("all", Int64Type, {-1})};
  // It was planned for the first number of rounds, and answered with that for the next one.
  g.nodes = {node("Loop", {"n", "", "x"}, {"y", "all"}, {graphAttribute("body", body.write())},
                  "growing")};
  expectUnsettled(g, "growing");
  body.nodes = {node("Unsqueeze", {"i", "zero"}, {"u"}),
                node("Slice", {"v", "zero", "u"}, {"w"}, {}, "part"),
                node("Identity", {"i"}, {"i2"})};
  g.initializers = {ints("zero", {1}, {0})};
  g.nodes = {
      node("Loop", {"n", "", "x"}, {"y", "all"}, {graphAttribute("body", body.write())}, "outer")};
  expectUnsettled(g, "part");
}

// ---- what opening may take ---------------------------------------------------------------------

/// y = x + the sum of what `nodes` make of constants alone, "c".
Graph ofConstants(std::vector<std::string> nodes, const std::string &size,
                  std::vector<std::string> initializers = {}) {
  Graph g;
  g.inputs = {info("x", FloatType, {1})};
  g.outputs = {info("y", FloatType, {1})};
  g.initializers = std::move(initializers);
  g.initializers.push_back(size);
  g.nodes = std::move(nodes);
  g.nodes.push_back(node("ReduceSum", {"c"}, {"sum"}, {integer("keepdims", 0)}));
  g.nodes.push_back(node("Add", {"x", "sum"}, {"y"}));
  return g;
}

TEST(Native, ConstantsOfManyBytesAreMadeWhenItRuns) {
  const int64_t large = 1 << 21;
  std::vector<std::string> nodes;
  std::vector<std::string> parts;
  for (int i = 0; i < 16; ++i) {
    const std::string part = "p" + std::to_string(i), other = "q" + std::to_string(i);
    nodes.push_back(node("ConstantOfShape", {"n"}, {part}));
    nodes.push_back(node("Exp", {part}, {other}));
    parts.push_back(other);
  }
  nodes.push_back(node("Sum", parts, {"c"}));
  const ModelFile file(ofConstants(nodes, ints("n", {1}, {large})));
  Expected<std::shared_ptr<const Plan>> planned = planOf(file.path(), {{1}});
  ASSERT_TRUE(planned) << planned.status().toString();
  size_t bytes = 0;
  for (const auto &constant : (*planned)->constants)
    bytes += constant->size();
  EXPECT_LT(bytes, size_t(80) << 20);
  Runner runner = runnerOf(file);
  ASSERT_TRUE(runner.set("x", {0.5F}));
  ASSERT_TRUE(runner.evaluate(Deadline::never())) << runner.status().toString();
  EXPECT_EQ(runner.output<float>("y")[0], static_cast<float>(16 * large) + 0.5F);
  const Status small = Model::open(file.uri() + "?memory=16M").status();
  EXPECT_EQ(small.code(), Code::LimitExceeded);
  EXPECT_NE(small.message().find("memory"), std::string::npos);
}

TEST(Native, ConstantsThatTakeLongAreMadeWhenItRuns) {
  Graph body;
  body.inputs = {info("i", Int64Type, {}), info("go", BoolType, {}), info("v", FloatType, {1})};
  body.outputs = {info("go", BoolType, {}), info("w", FloatType, {1})};
  body.nodes = {node("Add", {"v", "v"}, {"w"})};
  const std::string loop =
      node("Loop", {"n", "", "one"}, {"c"}, {graphAttribute("body", body.write())});
  const ModelFile endless(
      ofConstants({loop}, ints("n", {}, {int64_t(1) << 50}), {floats("one", {1}, {1})}));
  Runner runner = runnerOf(endless);
  ASSERT_TRUE(runner) << runner.status().toString();
  EXPECT_EQ(runner.evaluate(Deadline::after(std::chrono::milliseconds(20))).code(),
            Code::DeadlineExceeded);
  const ModelFile short_(ofConstants({loop}, ints("n", {}, {3}), {floats("one", {1}, {1})}));
  const Expected<std::shared_ptr<const Plan>> folded = planOf(short_.path(), {{1}});
  ASSERT_TRUE(folded) << folded.status().toString();
  EXPECT_EQ((*folded)->steps.size(), 1u) << "a constant that takes little is one";

  const ModelFile products(
      ofConstants({node("ConstantOfShape", {"n"}, {"m"}), node("MatMul", {"m", "m"}, {"p"}),
                   node("MatMul", {"p", "p"}, {"c"})},
                  ints("n", {2}, {1024, 1024})));
  const Expected<std::shared_ptr<const Plan>> planned = planOf(products.path(), {{1}});
  ASSERT_TRUE(planned) << planned.status().toString();
  EXPECT_GE((*planned)->steps.size(), 3u);
  EXPECT_TRUE((*planned)->isLong);
}

TEST(Native, OpeningKeepsItsDeadline) {
  const ModelFile file(smallNetwork());
  EXPECT_EQ(Model::open(file.uri() + "?deadline=0").status().code(), Code::DeadlineExceeded);
}

TEST(Native, ADefaultThatRefersToItselfIsRefused) {
  const std::string itself = Message().bytes(1, "slope").bytes(21, "slope").number(20, 1).text;
  const std::string inside =
      node("LeakyRelu", {"a"}, {"b"},
           {Message().bytes(1, "alpha").bytes(21, "slope").number(20, 1).text});
  const std::string version = Message().bytes(1, "").number(2, 17).text;
  const std::string function = Message()
                                   .bytes(1, "Leaky")
                                   .bytes(4, "a")
                                   .bytes(5, "b")
                                   .bytes(7, inside)
                                   .bytes(9, version)
                                   .bytes(10, "own")
                                   .bytes(11, itself)
                                   .text;
  Graph g;
  g.inputs = {info("x", FloatType, {2})};
  g.outputs = {info("y", FloatType, {2})};
  g.nodes = {Message(node("Leaky", {"x"}, {"y"})).bytes(7, "own").text};
  Message model(modelOf(g));
  model.bytes(8, Message().bytes(1, "own").number(2, 1).text).bytes(25, function);
  const ModelFile file(model.text);
  EXPECT_EQ(Model::open(file.uri()).status().code(), Code::InvalidModel);
}

// ---- hostile files -----------------------------------------------------------------------------

Code openingCode(const Graph &graph) {
  const ModelFile file(graph);
  const Model model = Model::open(file.uri());
  return model.status().code();
}

TEST(Native, RefusesBrokenGraphs) {
  Graph g = smallNetwork();
  g.nodes[0] = node("Concat", {"h", "w1"}, {"a"}, {integer("axis", 0)});
  EXPECT_EQ(openingCode(g), Code::InvalidModel) << "a cycle";
  g = smallNetwork();
  g.nodes[1] = node("Add", {"a", "b1"}, {"a"});
  EXPECT_EQ(openingCode(g), Code::InvalidModel) << "a name for two values";
  g = smallNetwork();
  g.initializers[1] = floats("b1", {4}, {1, 2, 3, 4});
  EXPECT_EQ(openingCode(g), Code::InvalidModel) << "a shape that doesn't fit";
  g = smallNetwork();
  g.initializers[1] = floats("b1", {3}, {1, 2});
  EXPECT_EQ(openingCode(g), Code::InvalidModel) << "fewer elements than stated";
  g = smallNetwork();
  g.initializers[1] = floats("b1", {int64_t(1) << 40, int64_t(1) << 40}, {1});
  EXPECT_EQ(openingCode(g), Code::InvalidModel) << "more elements than can be";
  g = smallNetwork();
  g.initializers.pop_back();
  EXPECT_EQ(openingCode(g), Code::InvalidModel) << "missing weights";
  g = smallNetwork();
  g.outputs = {info("z", FloatType, {1})};
  EXPECT_EQ(openingCode(g), Code::InvalidModel) << "an output that nothing makes";
  std::string deep = branch("Add").write();
  for (int i = 0; i < 100; ++i)
    deep = Message().bytes(1, node("If", {"c"}, {"r"}, {graphAttribute("then_branch", deep)})).text;
  Message model;
  model.bytes(7, deep).bytes(8, Message().number(2, 17).text);
  const ModelFile file(model.text);
  EXPECT_EQ(Model::open(file.uri()).status().code(), Code::Unsupported);
}

TEST(Native, ABitCastIsOfEqualSizesAndABoolIsZeroOrOne) {
  constexpr int UInt8Type = 2, StringType = 8, FutureType = 99;
  const auto bitCast = [](int from, int to) {
    Graph g;
    g.inputs = {info("x", from, {3})};
    g.outputs = {info("y", to, {3})};
    g.nodes = {node("BitCast", {"x"}, {"y"}, {integer("to", to)})};
    return modelOf(g, 26);
  };
  const auto opened = [&](int to) {
    const ModelFile file(bitCast(FloatType, to));
    return Model::open(file.uri()).status().code();
  };
  EXPECT_EQ(opened(Int64Type), Code::InvalidModel);
  EXPECT_EQ(opened(StringType), Code::Unsupported);
  EXPECT_EQ(opened(FutureType), Code::Unsupported);
  const ModelFile file(bitCast(UInt8Type, BoolType));
  Runner runner = runnerOf(file);
  ASSERT_TRUE(runner.set("x", {uint8_t(0), uint8_t(1), uint8_t(254)}));
  ASSERT_TRUE(runner.evaluate()) << runner.status().toString();
  const Span<const bool> y = runner.output<bool>("y");
  const uint8_t expected[] = {0, 1, 1};
  EXPECT_EQ(std::memcmp(y.data(), expected, 3), 0);
}

TEST(Native, RefusesEveryTruncation) {
  const std::string whole = modelOf(smallNetwork());
  for (size_t size = 0; size < whole.size(); ++size) {
    const ModelFile file(whole.substr(0, size));
    const Model model = Model::open(file.uri());
    // A property follows the graph; without it the model is whole as well.
    if (model) {
      EXPECT_GT(size, whole.size() - 20);
    } else {
      EXPECT_EQ(model.status().code(), Code::InvalidModel)
          << size << ": " << model.status().toString();
    }
  }
}

TEST(Native, ReadsExternalDataFromItsFolderOnly) {
  Runner runner = runnerOf(Model::open(golden("external-data")));
  ASSERT_TRUE(runner) << runner.status().toString();
  for (const char *name : {"external-escape", "external-absolute", "external-beyond",
                           "external-overflow", "external-short"})
    EXPECT_EQ(Model::open(golden(name)).status().code(), Code::InvalidModel) << name;
  EXPECT_EQ(Model::open(golden("external-missing")).status().code(), Code::NotFound);
}

// ---- threads -----------------------------------------------------------------------------------

TEST(Native, EightThreadsShareAModel) {
  const ModelFile file(smallNetwork());
  Model model = Model::open(file.uri());
  ASSERT_TRUE(model.bind(Signature(*model.modelSignature())));
  std::vector<std::thread> threads;
  std::vector<int> wrong(8);
  for (size_t t = 0; t < wrong.size(); ++t)
    threads.emplace_back([&, t] {
      Runner runner = model.newRunner();
      for (int i = 0; i < 2000; ++i) {
        const float x = static_cast<float>(t) + static_cast<float>(i % 7);
        const bool isOk = runner.set("x", {x, 0.0F}).ok() && runner.evaluate().ok();
        const float expected = 2 * (x + 0.5F) - (2 * x + 1) + 10;
        wrong[t] += !isOk || runner.output<float>("y")[0] != expected;
      }
    });
  for (std::thread &thread : threads)
    thread.join();
  EXPECT_EQ(wrong, std::vector<int>(8));
}

} // namespace
} // namespace mlbridge
