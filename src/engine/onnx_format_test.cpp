// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Facts read from a model before ONNX Runtime sees it, and nodes written into it.
#include "engine/onnx_format.h"
#include "engine/onnx_guards.h"

#include "engine/file.h"
#include "engine/native/test_models.h"

#include <gtest/gtest.h>

using namespace mlbridge;
using namespace mlbridge::native;

namespace {

Span<const uint8_t> bytesOf(const std::string &text) {
  return {reinterpret_cast<const uint8_t *>(text.data()), text.size()};
}

/// y = GRU of x, whose lengths are those of `shape`.
Graph recurrent(const Shape &shape, const std::string &op = "GRU") {
  Graph g;
  g.inputs = {info("x", FloatType, shape)};
  g.outputs = {info("y", FloatType, {-1, 1, -1, 2})};
  g.nodes = {node(op, {"x", "w", "r"}, {"y"}, {}, "layer")};
  return g;
}

TEST(OnnxFormat, GuardsARecurrentLayerWhoseInputMayBeEmpty) {
  for (const char *op : {"GRU", "LSTM", "RNN"}) {
    const std::string model = modelOf(recurrent({-1, -1, 3}, op));
    EXPECT_TRUE(engine::factsOf(bytesOf(model)).hasHazard);
    const std::optional<std::string> guarded = engine::guardedModel(bytesOf(model));
    ASSERT_TRUE(guarded);
    EXPECT_NE(guarded->find("Reshape"), std::string::npos);
    EXPECT_NE(guarded->find(std::string("mlbridge.guard[") + op + " 'layer']"), std::string::npos);
    // The fields after the graph are still there.
    EXPECT_NE(guarded->find("hello"), std::string::npos);
    EXPECT_FALSE(engine::guardedModel(bytesOf(modelOf(recurrent({2, 1, 3}, op)))));
    EXPECT_TRUE(engine::guardedModel(bytesOf(modelOf(recurrent({0, 1, 3}, op)))));
  }
  EXPECT_FALSE(engine::guardedModel(bytesOf(modelOf(smallNetwork()))));
  EXPECT_FALSE(engine::factsOf(bytesOf(modelOf(smallNetwork()))).hasHazard);
}

TEST(OnnxFormat, GuardsLayersInGraphsOfNodes) {
  Graph outer;
  outer.inputs = {info("c", BoolType, {})};
  outer.outputs = {info("y", FloatType, {1})};
  outer.nodes = {node("If", {"c"}, {"y"},
                      {graphAttribute("then_branch", recurrent({-1, 1, 3}).write()),
                       graphAttribute("else_branch", recurrent({2, 1, 3}).write())})};
  const std::string model = modelOf(outer);
  EXPECT_TRUE(engine::factsOf(bytesOf(model)).hasHazard);
  const std::optional<std::string> guarded = engine::guardedModel(bytesOf(model));
  ASSERT_TRUE(guarded);
  size_t count = 0;
  for (size_t at = 0; (at = guarded->find("mlbridge.guard[", at)) != guarded->npos; ++at)
    ++count;
  EXPECT_EQ(count, 2u);
}

TEST(OnnxFormat, SaysWhichGuardFailed) {
  EXPECT_EQ(engine::guardFailure("Name:'mlbridge.guard[GRU 'layer']' Status").substr(0, 11),
            "GRU 'layer'");
  EXPECT_EQ(engine::guardFailure("Name:'another' Status"), "");
  EXPECT_EQ(engine::guardFailure("mlbridge.guard[not ended"), "");
}

TEST(OnnxFormat, GuardsADivisionOfIntegersUnlessItsDivisorIsHarmless) {
  const auto guarded = [](int type, const std::vector<int64_t> &constant, const char *op = "Div",
                          int64_t opset = 17) {
    Graph g;
    g.inputs = {info("a", type, {2}), info("b", type, {2})};
    g.outputs = {info("y", type, {2})};
    if (!constant.empty()) {
      g.inputs.pop_back();
      g.initializers = {ints("b", {2}, constant)};
    }
    g.nodes = {node(op, {"a", "b"}, {"y"}, {}, "q")};
    const std::string model = modelOf(g, opset);
    return engine::factsOf(bytesOf(model)).hasHazard &&
           engine::guardedModel(bytesOf(model))
                   .value_or("")
                   .find(std::string("mlbridge.guard[") + op + " 'q']") != std::string::npos;
  };
  EXPECT_TRUE(guarded(Int64Type, {}));
  EXPECT_TRUE(guarded(Int64Type, {}, "Mod"));
  EXPECT_TRUE(guarded(Int64Type, {3, -1}));
  EXPECT_TRUE(guarded(Int64Type, {0, 3}));
  EXPECT_FALSE(guarded(Int64Type, {3, -2}));
  EXPECT_FALSE(guarded(FloatType, {}));
  EXPECT_FALSE(guarded(Int64Type, {}, "Add"));
  EXPECT_FALSE(guarded(Int64Type, {}, "Div", 8)); // it has no Where
}

TEST(OnnxFormat, TakesNoNameOfTwoValuesForAnInteger) {
  // In one branch t is an integer, in the other one what an operator of unknown type makes.
  const auto branch = [](const std::string &first) {
    Graph g;
    g.outputs = {info("y", FloatType, {1})};
    g.nodes = {first, node("Div", {"t", "t"}, {"u"}), node("Identity", {"x"}, {"y"})};
    return g.write();
  };
  Graph outer;
  outer.inputs = {info("c", BoolType, {}), info("x", FloatType, {1})};
  outer.outputs = {info("y", FloatType, {1})};
  const std::string shape = branch(node("Shape", {"x"}, {"t"}));
  const auto guards = [&](const std::string &other) {
    outer.nodes = {
        node("If", {"c"}, {"y"},
             {graphAttribute("then_branch", shape), graphAttribute("else_branch", other)})};
    const std::string model = modelOf(outer);
    return engine::guardedModel(bytesOf(model)).has_value();
  };
  EXPECT_FALSE(guards(branch(node("Exp", {"x"}, {"t"}))));
  EXPECT_TRUE(guards(branch(node("Exp", {"x"}, {"s"}))));
}

TEST(OnnxFormat, WordsWhatOnnxRuntimeSays) {
  const auto is = [](const char *message, const char *plain) {
    EXPECT_EQ(engine::plainMessage(message), plain);
  };
  is("Non-zero status code returned while running Div node. Name:'' Status Message: "
     "element_wise_ops.cc:703 Compute Integer division by zero",
     "Div: Integer division by zero");
  is("[ONNXRuntimeError] : 1 : FAIL : Non-zero status code returned while running Mod node. "
     "Name:'q' Status Message: element_wise_ops.cc:2421 operator() Integer modulo by zero\nmore",
     "Mod 'q': Integer modulo by zero");
  is("Exception during initialization: "
     "/onnxruntime_src/onnxruntime/core/providers/cpu/math/element_wise_ops.h:256 "
     "onnxruntime::Div<T>::Div(const onnxruntime::OpKernelInfo&) [with T = int] "
     "b_data[i] != T{0} was false. Integer division by zero",
     "Exception during initialization: b_data[i] != T{0} was false. Integer division by zero");
  is("Status Message: /onnxruntime_src/onnxruntime/core/framework/op_kernel.cc:87 virtual "
     "OrtValue* "
     "onnxruntime::OpKernelContext::OutputMLValue(int, const onnxruntime::TensorShape&) "
     "[ONNXRuntimeError] : 1 : FAIL : tensor.cc:57 CalculateTensorStorageSize Tensor shape.Size() "
     "must be >= 0",
     "Status Message: Tensor shape.Size() must be >= 0");
  is("Load model from m.onnx failed:/onnxruntime_src/onnxruntime/core/graph/model.cc:181 "
     "onnxruntime::Model::Model(onnx::ModelProto&&, const std::function<void(int)>&) Unsupported "
     "model IR version: 99, max supported IR version: 13\n",
     "Load model from m.onnx failed:Unsupported model IR version: 99, max supported IR version: "
     "13");
  is("model.cc:1: no function follows. ", "model.cc:1: no function follows");
  for (const char *whole :
       {"", "x.cc:", "a.cc:7", "a.cc:7 f", "a.cc:7 void f(", "x [ONNXRuntimeError] : "})
    (void)engine::plainMessage(whole);
}

TEST(OnnxFormat, FindsInputsWithDefaultsAndWhatHasNoShape) {
  Graph g = smallNetwork();
  g.inputs.push_back(info("b1", FloatType, {3}));
  g.inputs.push_back(Message().bytes(1, "free").bytes(2, Message().bytes(1, "").text).text);
  g.outputs.push_back(Message().bytes(1, "out").bytes(2, Message().bytes(1, "").text).text);
  const engine::OnnxFacts facts = engine::factsOf(bytesOf(modelOf(g)));
  EXPECT_EQ(facts.defaults, std::vector<std::string>{"b1"});
  EXPECT_EQ(facts.shapelessInputs, std::vector<std::string>{"free"});
  EXPECT_EQ(facts.shapelessOutputs, std::vector<std::string>{"out"});
  EXPECT_FALSE(facts.isNeverEmpty);
}

TEST(OnnxFormat, AFileOfONNXRuntimesOwnWithARecurrentLayerTakesNoEmptyInput) {
  using std::string_literals::operator""s;
  EXPECT_TRUE(engine::factsOf(bytesOf("\0\0\0\0ORTM\0\0\0\0\3\0\0\0GRU\0"s)).isNeverEmpty);
  EXPECT_FALSE(engine::factsOf(bytesOf("\0\0\0\0ORTM\0\0\0\0\4\0\0\0GRUs\0"s)).isNeverEmpty);
}

TEST(OnnxFormat, AnyBytesAreReadWithoutHarm) {
  const std::string model = modelOf(recurrent({-1, -1, 3}));
  for (size_t size = 0; size < model.size(); ++size) {
    const std::string cut = model.substr(0, size);
    (void)engine::factsOf(bytesOf(cut));
    const std::optional<std::string> guarded = engine::guardedModel(bytesOf(cut));
    EXPECT_TRUE(!guarded || guarded->size() > cut.size());
  }
}

TEST(OnnxFormat, NamesWhatIsPlainlyNoModel) {
  using std::string_literals::operator""s;
  const auto instead = [](const std::string &bytes) { return engine::whatInstead(bytesOf(bytes)); };
  EXPECT_NE(
      instead("version https://git-lfs.github.com/spec/v1\noid sha256:0\n").find("git lfs pull"),
      std::string::npos);
  for (const char *page :
       {"<!DOCTYPE html><html>", "<html>", "\n  <HTML lang=en>", "\xef\xbb\xbf<!doctype HTML>"})
    EXPECT_NE(instead(page).find("HTML"), std::string::npos) << page;
  EXPECT_NE(instead("PK\3\4"s).find("torch.onnx.export"), std::string::npos);
  EXPECT_NE(instead("\x89HDF\r\n"s).find("HDF5"), std::string::npos);
  EXPECT_NE(instead("\x1f\x8b\x08"s).find("gzip"), std::string::npos);
  for (const std::string &model : {modelOf(smallNetwork()), ""s, "<"s, " "s, "\xef\xbb\xbf"s})
    EXPECT_EQ(instead(model), "");
}

} // namespace
