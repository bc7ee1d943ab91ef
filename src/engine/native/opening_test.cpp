// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Refusals when a model is opened, rather than in each evaluation, and models that are taken.
#include "engine/native/network.h"
#include "engine/native/test_models.h"

#include <mlbridge/model.h>

#include <gtest/gtest.h>

#include <algorithm>

namespace mlbridge {
namespace {

using namespace native;

Status opened(const Graph &graph, int64_t opset = 20) {
  const ModelFile file(modelOf(graph, opset));
  return Model::open(file.uri()).status();
}
std::string signatureOf(const Graph &graph) {
  const ModelFile file(graph);
  const Model model = Model::open(file.uri());
  return model ? model.modelSignature()->toString() : model.status().toString();
}
bool mentions(const Status &status, std::initializer_list<const char *> parts) {
  bool all = true;
  for (const char *part : parts)
    all &= status.message().find(part) != std::string::npos;
  return all;
}

/// An output without a shape.
std::string unshaped(const std::string &name, int type) {
  const std::string tensor = Message().number(1, type).text;
  return Message().bytes(1, name).bytes(2, Message().bytes(1, tensor).text).text;
}
/// A length with a name of its own.
std::string named(const std::string &name, int type, const std::vector<std::string> &dimensions) {
  Message shape;
  for (const std::string &dimension : dimensions)
    shape.bytes(1, Message().bytes(2, dimension).text);
  const std::string tensor = Message().number(1, type).bytes(2, shape.text).text;
  return Message().bytes(1, name).bytes(2, Message().bytes(1, tensor).text).text;
}
std::string weights(const std::string &name, const Shape &shape) {
  return floats(name, shape, std::vector<float>(elementCount(shape).value_or(0), 1));
}

TEST(NativeOpening, AnInstructionSetThatNobodyKnowsIsRefused) {
  const ModelFile file(smallNetwork());
  for (const std::string &uri : {file.uri(), std::string("aot:./none.so")}) {
    ::setenv("MLBRIDGE_NATIVE_ISA", "bogus", 1);
    const Status refused = Model::open(uri).status();
    ::unsetenv("MLBRIDGE_NATIVE_ISA");
    EXPECT_EQ(refused.code(), Code::InvalidArgument);
    EXPECT_TRUE(
        mentions(refused, {"MLBRIDGE_NATIVE_ISA is 'bogus'", "portable, avx2, avx512 or neon"}))
        << refused.toString();
  }
}

// ---- order -------------------------------------------------------------------------------------

Graph unsorted(int64_t length) {
  Graph g;
  g.inputs = {info("x", FloatType, {length})};
  g.outputs = {info("y", FloatType, {length})};
  g.nodes = {node("Relu", {"h"}, {"y"}), node("Add", {"g", "x"}, {"h"}), node("Neg", {"x"}, {"f"}),
             node("Add", {"f", "f"}, {"g"})};
  return g;
}

void expectMinusOne(const Graph &graph) {
  const ModelFile file(graph);
  Model model = Model::open(file.uri());
  ASSERT_TRUE(model) << model.status().toString();
  ASSERT_TRUE(model.bind(Signature(*model.modelSignature())));
  Runner runner = model.newRunner();
  ASSERT_TRUE(runner.resize<float>("x", {2}));
  ASSERT_TRUE(runner.set("x", {-1.0F, 1.0F}));
  ASSERT_TRUE(runner.evaluate()) << runner.status().toString();
  EXPECT_EQ(runner.output<float>("y")[0], 1.0F);
  EXPECT_EQ(runner.output<float>("y")[1], 0.0F);
}

TEST(NativeOpening, SortsNodes) {
  expectMinusOne(unsorted(2));
  expectMinusOne(unsorted(-1));
}

TEST(NativeOpening, SortsNodesOfBranchesAndBehindThem) {
  Graph yes = unsorted(2);
  yes.inputs.clear();
  yes.outputs = {info("y", FloatType, {2})};
  Graph no = yes;
  Graph g;
  g.inputs = {info("x", FloatType, {2})};
  g.outputs = {info("y", FloatType, {2})};
  // The branches take "x0", which a later node makes, and what they need stands behind its use.
  for (Graph *branch : {&yes, &no}) {
    branch->nodes = {node("Relu", {"h"}, {"r"}), node("Add", {"g", "x0"}, {"h"}),
                     node("Neg", {"x0"}, {"f"}), node("Add", {"f", "f"}, {"g"})};
    branch->outputs = {info("r", FloatType, {2})};
  }
  g.initializers = {ints("one", {}, {1})};
  g.nodes = {
      node("If", {"condition"}, {"y"},
           {graphAttribute("then_branch", yes.write()), graphAttribute("else_branch", no.write())}),
      node("Greater", {"sum", "sum"}, {"condition"}),
      node("ReduceSum", {"x0"}, {"sum"}, {integer("keepdims", 0)}),
      node("Identity", {"x"}, {"x0"})};
  expectMinusOne(g);
}

TEST(NativeOpening, ACycleIsRefusedByNode) {
  for (const int64_t length : {int64_t(2), int64_t(-1)}) {
    Graph g = unsorted(length);
    g.nodes[2] = node("Neg", {"h"}, {"f"}, {}, "turns");
    Status status = opened(g);
    EXPECT_EQ(status.code(), Code::InvalidModel);
    EXPECT_TRUE(mentions(status, {"cycle", "'turns'"})) << status.toString();
    g.nodes[2] = node("Add", {"x", "f"}, {"f"}, {}, "itself");
    status = opened(g);
    EXPECT_EQ(status.code(), Code::InvalidModel);
    EXPECT_TRUE(mentions(status, {"cycle", "'itself'"})) << status.toString();
  }
}

// ---- lengths -----------------------------------------------------------------------------------

TEST(NativeOpening, FindsLengthsThatWeightsDemand) {
  Graph g;
  g.inputs = {info("a", FloatType, {-1, -1})};
  g.outputs = {unshaped("y", FloatType)};
  g.initializers = {weights("w", {16, 4})};
  g.nodes = {node("MatMul", {"a", "w"}, {"y"})};
  EXPECT_EQ(signatureOf(g), "(a: float32[?, ?]) -> (y: float32[?, 4])");
  // Twice the length and one is that of the weights.
  g.inputs = {named("a", FloatType, {"n"})};
  g.initializers = {weights("w", {17}), weights("more", {1})};
  g.nodes = {node("Concat", {"a", "a", "more"}, {"twice"}, {integer("axis", 0)}),
             node("Mul", {"twice", "w"}, {"y"})};
  EXPECT_EQ(signatureOf(g), "(a: float32[?]) -> (y: float32[17])");
  // The elements are as many as a shape says; the length isn't that of its namesake.
  g.inputs = {named("a", FloatType, {"n", "k"})};
  g.initializers = {ints("shape", {2}, {9, 10})};
  g.nodes = {node("Reshape", {"a", "shape"}, {"y"})};
  EXPECT_EQ(signatureOf(g), "(a: float32[?, ?]) -> (y: float32[9, 10])");
  g.inputs = {named("a", FloatType, {"n", "n"})};
  g.initializers = {weights("w", {5, 7})};
  g.nodes = {node("MatMul", {"a", "w"}, {"y"})};
  EXPECT_EQ(signatureOf(g), "(a: float32[?, ?]) -> (y: float32[?, 7])");
  // Two of them, and one that must be the other.
  g.inputs = {named("a", FloatType, {"n", "k"}), named("b", FloatType, {"m", "l"})};
  g.initializers = {weights("w", {11, 6}), weights("bias", {13})};
  g.nodes = {node("MatMul", {"a", "w"}, {"c"}), node("MatMul", {"c", "b"}, {"d"}),
             node("Add", {"d", "bias"}, {"y"})};
  EXPECT_EQ(signatureOf(g), "(a: float32[?, ?], b: float32[?, ?]) -> (y: float32[?, 13])");
}

TEST(NativeOpening, RefusesWhatFitsForNoLength) {
  Graph g;
  g.inputs = {info("a", FloatType, {-1, 5})};
  g.outputs = {info("y", FloatType, {-1, -1})};
  g.initializers = {weights("w", {16, 4})};
  g.nodes = {node("MatMul", {"a", "w"}, {"y"}, {}, "layer")};
  Status status = opened(g);
  EXPECT_EQ(status.code(), Code::InvalidModel);
  EXPECT_TRUE(mentions(status, {"'layer'", "lengths"})) << status.toString();
  // Another shape than is declared.
  g.inputs = {info("a", FloatType, {-1, -1})};
  g.outputs = {info("y", FloatType, {-1, 8})};
  status = opened(g);
  EXPECT_EQ(status.code(), Code::InvalidModel);
  EXPECT_TRUE(mentions(status, {"output 'y", "4]"})) << status.toString();
}

TEST(NativeOpening, RefusesWhatItLacksForAnyLength) {
  const char yes = 1;
  Graph g;
  g.inputs = {named("a", FloatType, {"n", "k"})};
  g.outputs = {info("y", FloatType, {-1, 4})};
  g.initializers = {weights("w", {16, 4}), weights("ratio", {}),
                    tensorOf(BoolType, "training", {}, {&yes, 1})};
  g.nodes = {node("MatMul", {"a", "w"}, {"h"}),
             node("Dropout", {"h", "ratio", "training"}, {"y"}, {}, "drop")};
  Status status = opened(g);
  EXPECT_EQ(status.code(), Code::Unsupported);
  EXPECT_TRUE(mentions(status, {"'drop'", "eval", "onnx:"})) << status.toString();
  // After values on which shapes depend as well.
  g.nodes = {node("NonZero", {"a"}, {"found"}),
             node("Cast", {"found"}, {"h"}, {integer("to", FloatType)}),
             node("Dropout", {"h", "ratio", "training"}, {"y"}, {}, "drop")};
  g.outputs = {info("y", FloatType, {-1, -1})};
  status = opened(g);
  EXPECT_EQ(status.code(), Code::Unsupported);
  EXPECT_TRUE(mentions(status, {"'drop'"})) << status.toString();
}

TEST(NativeOpening, AnOutputThatDependsOnValuesNeedsNoShape) {
  Graph g;
  g.inputs = {info("a", FloatType, {4})};
  g.outputs = {unshaped("y", Int64Type)};
  g.nodes = {node("NonZero", {"a"}, {"y"})};
  const ModelFile file(g);
  Model model = Model::open(file.uri());
  ASSERT_TRUE(model) << model.status().toString();
  EXPECT_EQ(model.modelSignature()->toString(), "(a: float32[4]) -> (y: int64[?, ?])");
  ASSERT_TRUE(model.bind(Signature(*model.modelSignature())));
  Runner runner = model.newRunner();
  for (const std::vector<float> &a : {std::vector<float>{1, 0, 2, 0}, {0, 0, 0, 0}, {1, 1, 1, 1}}) {
    ASSERT_TRUE(runner.set("a", a));
    ASSERT_TRUE(runner.evaluate()) << runner.status().toString();
    const auto zeros = std::count(a.begin(), a.end(), 0.0F);
    EXPECT_EQ(runner.outputAt(0).shape[1], 4 - zeros);
  }
}

// ---- attributes --------------------------------------------------------------------------------

TEST(NativeOpening, AnAttributeThatTheOperatorDoesNotHaveIsInvalid) {
  Graph g;
  g.inputs = {info("x", FloatType, {2})};
  g.outputs = {info("y", FloatType, {2})};
  g.nodes = {node("Relu", {"x"}, {"y"}, {integer("axis", 0)}, "layer")};
  const Status status = opened(g);
  EXPECT_EQ(status.code(), Code::InvalidModel);
  EXPECT_TRUE(mentions(status, {"'layer'", "'axis'"})) << status.toString();
  // A name that is the beginning of one, or two of them, is none.
  for (const char *name : {"a", "axi", "epsilon stash_type", ""}) {
    g.nodes = {node("LayerNormalization", {"x", "x"}, {"y"}, {integer(name, 0)})};
    EXPECT_EQ(opened(g).code(), Code::InvalidModel) << name;
  }
  // A hint of the first versions.
  g.nodes = {node("Relu", {"x"}, {"y"}, {integer("consumed_inputs", 0)})};
  EXPECT_TRUE(opened(g));
}

TEST(NativeOpening, AttributesAreThoseOfTheVersion) {
  const std::string bound = Message().bytes(1, "min").real(2, 0).number(20, 1).text;
  Graph g;
  g.inputs = {info("x", FloatType, {2})};
  g.outputs = {info("y", FloatType, {2})};
  g.nodes = {node("Clip", {"x"}, {"y"}, {bound})};
  EXPECT_TRUE(opened(g, 10));
  EXPECT_EQ(opened(g, 11).code(), Code::InvalidModel);
  g.nodes = {node("Clip", {"x", "x"}, {"y"})};
  EXPECT_EQ(opened(g, 10).code(), Code::InvalidModel);
}

// ---- missing features --------------------------------------------------------------------------

TEST(NativeOpening, ListsAllThatItLacks) {
  constexpr int StringType = 8;
  for (const int64_t length : {int64_t(2), int64_t(-1)}) {
    Graph branch;
    branch.nodes = {node("Multinomial", {"x"}, {"e"}, {}, "inner")};
    branch.outputs = {info("e", FloatType, {length})};
    Graph g;
    g.inputs = {info("c", BoolType, {}), info("x", FloatType, {length})};
    g.outputs = {info("y", FloatType, {length}), info("z", FloatType, {length})};
    for (const char *name : {"one", "two", "three", "four", "five"})
      g.nodes.push_back(node("MaxRoiPool", {"x", "x"}, {std::string("of_") + name}, {}, name));
    g.nodes.push_back(node("Cast", {"x"}, {"b"}, {integer("to", StringType)}, "narrow"));
    g.nodes.push_back(Message(node("Of", {"x"}, {"f"})).bytes(7, "own").text);
    g.nodes.push_back(node("If", {"c"}, {"y"},
                           {graphAttribute("then_branch", branch.write()),
                            graphAttribute("else_branch", branch.write())}));
    g.nodes.push_back(node("Relu", {"of_one"}, {"z"}));
    const std::string function = Message()
                                     .bytes(1, "Of")
                                     .bytes(4, "a")
                                     .bytes(5, "b")
                                     .bytes(7, node("RoiAlign", {"a", "a", "a"}, {"b"}, {}, "deep"))
                                     .bytes(9, Message().bytes(1, "").number(2, 16).text)
                                     .bytes(10, "own")
                                     .text;
    const ModelFile file(Message(modelOf(g, 20))
                             .bytes(8, Message().bytes(1, "own").number(2, 1).text)
                             .bytes(25, function)
                             .text);
    const Status status = Model::open(file.uri()).status();
    EXPECT_EQ(status.code(), Code::Unsupported);
    EXPECT_TRUE(mentions(
        status, {"MaxRoiPool 'one' and 4 more: native does not run the operator MaxRoiPool "
                 "(opset 20); ",
                 "'narrow': to the type STRING",
                 "'deep': native does not run the operator "
                 "RoiAlign (opset 16); ",
                 "'inner'", "Multinomial", "; you can open it with onnx:FILE", "encode texts",
                 "?choose=sample"}))
        << status.toString();
    EXPECT_FALSE(mentions(status, {"Relu"})) << status.toString();
    EXPECT_LT(status.message().size(), 1000u);
  }
}

TEST(NativeOpening, ListsInputsAndOutputsThatItLacksToo) {
  constexpr int StringType = 8;
  Graph g;
  g.inputs = {info("x", StringType, {2}), info("a", FloatType, {2})};
  g.outputs = {info("z", StringType, {2})};
  g.nodes = {node("MaxRoiPool", {"a", "a"}, {"y"}), node("Identity", {"x"}, {"z"})};
  const Status status = opened(g);
  EXPECT_EQ(status.code(), Code::Unsupported);
  EXPECT_TRUE(mentions(status, {"input 'x' and 1 more", "STRING", "MaxRoiPool", "onnx:"}))
      << status.toString();
}

TEST(NativeOpening, PointsAtOnnxRuntimeOnlyWhereThatTakesTheModel) {
  const auto refusal = [](const std::string &node, int type = FloatType, int64_t opset = 20) {
    Graph g;
    g.inputs = {info("x", type, {2})};
    g.outputs = {info("y", FloatType, {2})};
    g.nodes = {node};
    const ModelFile file(
        Message(modelOf(g, opset)).bytes(8, Message().bytes(1, "own").number(2, 1).text).text);
    const Status status = Model::open(file.uri()).status();
    EXPECT_EQ(status.code(), Code::Unsupported) << status.toString();
    return status;
  };
  constexpr int Float8Type = 17;
  EXPECT_TRUE(mentions(refusal(node("MaxRoiPool", {"x", "x"}, {"y"})), {"with onnx:"}));
  EXPECT_FALSE(mentions(refusal(node("Convolve", {"x"}, {"y"})), {"with onnx:"}));
  EXPECT_FALSE(mentions(refusal(node("Relu", {"x"}, {"y"}), Float8Type), {"with onnx:"}));
  EXPECT_FALSE(mentions(refusal(node("Relu", {"x"}, {"y"}), FloatType, 99), {"with onnx:"}));
  const Status own = refusal(Message(node("Of", {"x"}, {"y"})).bytes(7, "own").text);
  EXPECT_TRUE(mentions(own, {"own.Of (opset 1 of own)", "onnx:FILE?custom_ops=LIBRARY"}));
  EXPECT_FALSE(mentions(own, {"instead"})) << own.toString();
}

TEST(NativeOpening, SaysWhatElseTheUserCanDo) {
  const auto refusal = [](const char *op, const std::string &domain = "", int64_t opset = 20,
                          int type = FloatType) {
    Graph g;
    g.inputs = {info("x", type, {2})};
    g.outputs = {info("y", FloatType, {2})};
    g.nodes = {Message(node(op, {"x"}, {"y"})).bytes(7, domain).text};
    const ModelFile file(
        Message(modelOf(g, opset)).bytes(8, Message().bytes(1, domain).number(2, opset).text).text);
    const Status status = Model::open(file.uri()).status();
    EXPECT_EQ(status.code(), Code::Unsupported) << status.toString();
    return status;
  };
  constexpr int StringType = 8, Int4Type = 22;
  const std::pair<Status, const char *> cases[] = {
      {refusal("Clip", "", 5), "only from opset 6 on; you can open it with onnx:FILE"},
      {refusal("Clip", "", 5), "export it for another opset"},
      {refusal("Clip", "", -7), "only from opset 6 on"},
      {refusal("Relu", "", 99), "export it for another opset"},
      {refusal("Relu", "", 20, StringType), "encode texts before the model"},
      {refusal("Relu", "", 20, Int4Type), "quantize it to 8 bits"},
      {refusal("SequenceAt"), "export it without lists"},
      {refusal("ATen", "org.pytorch.aten"), "torch.onnx.export(dynamo=True)"},
      {refusal("NoSuch", "com.microsoft"), "ORT_ENABLE_BASIC"},
      {refusal("RandomNormalLike"), "?choose=sample"},
  };
  for (const auto &[status, way] : cases)
    EXPECT_TRUE(mentions(status, {way})) << status.toString();
}

TEST(NativeOpening, BFloat16IsFloat32OutsideAndRoundedInside) {
  constexpr int BFloat16Type = 16;
  Graph g;
  g.inputs = {info("x", BFloat16Type, {4})};
  g.outputs = {info("y", BFloat16Type, {4}), info("z", FloatType, {4})};
  // 1 in typed fields, and raw.
  g.initializers = {
      Message().number(1, 1).number(2, BFloat16Type).number(5, 0x3f80).bytes(8, "one").text,
      tensorOf(BFloat16Type, "same", {1}, std::string("\x80\x3f", 2))};
  g.nodes = {node("Add", {"x", "one"}, {"a"}), node("Mul", {"a", "same"}, {"y"}),
             node("Cast", {"y"}, {"z"}, {integer("to", FloatType)})};
  const ModelFile file(modelOf(g, 20));
  Model model = Model::open(file.uri());
  ASSERT_TRUE(model) << model.status().toString();
  EXPECT_EQ(model.modelSignature()->toString(),
            "(x: float32[4]) -> (y: float32[4], z: float32[4])");
  ASSERT_TRUE(model.bind(Signature(*model.modelSignature())));
  Runner runner = model.newRunner();
  // 8 bits: 256 + 1 lies between 256 and 258, and is rounded to even; 1.00390625 was rounded
  // before.
  ASSERT_TRUE(runner.set("x", {256.0F, 258.0F, 1.00390625F, -3.5F}));
  ASSERT_TRUE(runner.evaluate()) << runner.status().toString();
  const float expected[] = {256, 260, 2, -2.5F};
  for (const size_t output : {0, 1}) {
    const auto *values = static_cast<const float *>(runner.outputAt(output).data);
    EXPECT_TRUE(std::equal(values, values + 4, expected)) << output;
  }
}

TEST(NativeOpening, FunctionsOfOneNameNeedDifferentOverloads) {
  // y = x + x by the overload "twice", x * x by any other.
  const auto function = [](const char *op, const char *overload) {
    return Message()
        .bytes(1, "Of")
        .bytes(4, "a")
        .bytes(5, "b")
        .bytes(7, node(op, {"a", "a"}, {"b"}))
        .bytes(9, Message().bytes(1, "").number(2, 17).text)
        .bytes(10, "own")
        .bytes(13, overload)
        .text;
  };
  const auto model = [&](const char *first, const char *second) {
    Graph g;
    g.inputs = {info("x", FloatType, {1})};
    g.outputs = {info("y", FloatType, {1})};
    g.nodes = {Message(node("Of", {"x"}, {"y"})).bytes(7, "own").bytes(8, "twice").text};
    return Message(modelOf(g))
        .bytes(8, Message().bytes(1, "own").number(2, 1).text)
        .bytes(25, function("Mul", first))
        .bytes(25, function("Add", second))
        .text;
  };
  const ModelFile good(model("", "twice"));
  Runner runner = open(
      good.uri(), Signature{{TensorSpec::of<float>("x", {1})}, {TensorSpec::of<float>("y", {1})}});
  ASSERT_TRUE(runner.set("x", {5.0F}));
  EXPECT_EQ(runner.evaluate<float>().valueOr(0), 10.0F);
  const ModelFile two(model("twice", "twice"));
  const Status refused = Model::open(two.uri()).status();
  EXPECT_EQ(refused.code(), Code::InvalidModel);
  EXPECT_NE(refused.message().find("two functions 'own.Of.twice'"), std::string::npos)
      << refused.toString();
}

} // namespace
} // namespace mlbridge
