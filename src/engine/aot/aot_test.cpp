// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Models that are linked in, and tables that are not what they should be. What the compiler makes
// is tested in python/tests/aot_test.py.
#include <mlbridge/compiled.h>
#include <mlbridge/model.h>

#include <gtest/gtest.h>

#include <cstring>
#include <string>

namespace mlbridge {
namespace {

const int64_t Two[] = {2};
const int64_t Negative[] = {-1};
const int64_t Huge[] = {int64_t(1) << 40, int64_t(1) << 40};

mlb_aot_string text(const char *s) { return {s, std::strlen(s)}; }

int32_t twice(const void *, void *, void *const *inputs, void *const *outputs, uint64_t left) {
  const float *x = static_cast<const float *>(inputs[0]);
  float *y = static_cast<float *>(outputs[0]);
  for (int i = 0; i < 2; ++i)
    y[i] = 2 * x[i];
  return x[0] < 0 ? 1 : left < 1000 ? MLB_AOT_TIMED_OUT : 0;
}

const mlb_aot_tensor Input = {text("x"), uint32_t(ElementType::Float32), 1, Two};
const mlb_aot_tensor Output = {text("y"), uint32_t(ElementType::Float32), 1, Two};
const mlb_aot_string Node = text("Gather 'g'");

mlb_aot_model tableOf(const char *name) {
  mlb_aot_model model = {};
  model.size = sizeof model;
  model.abi = MLB_AOT_ABI;
  model.name = text(name);
  model.inputs = &Input;
  model.inputs_size = 1;
  model.outputs = &Output;
  model.outputs_size = 1;
  model.nodes = &Node;
  model.nodes_size = 1;
  model.evaluate = twice;
  return model;
}

TEST(Compiled, ALinkedModelIsOpenedByItsName) {
  static const mlb_aot_model Model = tableOf("linked");
  ASSERT_TRUE(registerCompiled(&Model));
  EXPECT_TRUE(registerCompiled(&Model)); // again: the same
  static const mlb_aot_model Other = tableOf("linked");
  EXPECT_EQ(registerCompiled(&Other).code(), Code::InvalidArgument);

  Runner runner =
      open("aot:linked", {{TensorSpec::of<float>("x", {2})}, {TensorSpec::of<float>("y", {2})}});
  ASSERT_TRUE(runner.status()) << runner.status().toString();
  const Span<float> x = runner.input<float>("x");
  x[0] = 1.5F;
  x[1] = -2;
  ASSERT_TRUE(runner.evaluate());
  EXPECT_EQ(runner.output<float>("y")[0], 3);
  EXPECT_EQ(runner.output<float>("y")[1], -4);
  x[0] = -1;
  const Status failed = runner.evaluate();
  EXPECT_EQ(failed.code(), Code::PolicyFailed);
  EXPECT_NE(failed.message().find("Gather 'g'"), std::string::npos);
}

int32_t readBehind(const void *, void *workspace, void *const *inputs, void *const *outputs,
                   uint64_t) {
  const auto *x = static_cast<const uint8_t *>(inputs[0]) + 64;
  const auto *y = static_cast<const uint8_t *>(outputs[0]) + 64;
  const auto *w = static_cast<const uint8_t *>(workspace) + 64;
  volatile int sum = 0;
  for (int i = 0; i < 64; ++i)
    sum = sum + x[i] + y[i] + w[i];
  return 0;
}

TEST(Compiled, MemoryBehindBuffersMayBeRead) {
  static const int64_t Sixteen[] = {16};
  static const mlb_aot_tensor Full = {text("x"), uint32_t(ElementType::Float32), 1, Sixteen};
  static mlb_aot_model Model = tableOf("reads behind");
  Model.inputs = Model.outputs = &Full;
  Model.workspace_size = 64;
  Model.evaluate = readBehind;
  ASSERT_TRUE(registerCompiled(&Model));
  const TensorSpec x = TensorSpec::of<float>("x", {16});
  Runner runner = open("aot:reads behind", {{x}, {x}});
  ASSERT_TRUE(runner.status()) << runner.status().toString();
  EXPECT_TRUE(runner.evaluate());
}

TEST(Compiled, TablesOfTheFirstVersionAreTaken) {
  static mlb_aot_model Model = tableOf("first version");
  Model.abi = 1;
  EXPECT_TRUE(registerCompiled(&Model));
}

TEST(Compiled, UnknownNamesAreNotFound) {
  const Model model = Model::open("aot:lonked");
  EXPECT_EQ(model.status().code(), Code::NotFound);
}

TEST(Compiled, ATableOfAnotherVersionIsTakenOrNamesBoth) {
  static mlb_aot_model older = tableOf("older");
  older.abi = MLB_AOT_ABI - 1;
  EXPECT_TRUE(registerCompiled(&older));
  mlb_aot_model newer = tableOf("newer");
  newer.abi = MLB_AOT_ABI + 1;
  EXPECT_EQ(registerCompiled(&newer).message(),
            "compiled for version 3 of the table; this library takes 1 to 2: compile it again");
}

TEST(Compiled, DamagedTablesAreRefused) {
  EXPECT_EQ(registerCompiled(nullptr).code(), Code::InvalidModel);
  const auto refused = [](auto change) {
    mlb_aot_model model = tableOf("damaged");
    change(model);
    return registerCompiled(&model).code() == Code::InvalidModel;
  };
  EXPECT_TRUE(refused([](mlb_aot_model &m) { m.size = 4; }));
  EXPECT_TRUE(refused([](mlb_aot_model &m) { m.size = sizeof m - 1; }));
  EXPECT_TRUE(refused([](mlb_aot_model &m) { m.abi = 0; }));
  EXPECT_TRUE(refused([](mlb_aot_model &m) { m.abi = MLB_AOT_ABI + 1; }));
  EXPECT_TRUE(refused([](mlb_aot_model &m) { m.evaluate = nullptr; }));
  EXPECT_TRUE(refused([](mlb_aot_model &m) { m.inputs = nullptr; }));
  EXPECT_TRUE(refused([](mlb_aot_model &m) { m.inputs_size = UINT64_MAX; }));
  EXPECT_TRUE(refused([](mlb_aot_model &m) { m.workspace_size = UINT64_MAX; }));
  EXPECT_TRUE(refused([](mlb_aot_model &m) { m.metadata_size = 2; }));
  EXPECT_TRUE(refused([](mlb_aot_model &m) { m.name.size = UINT64_MAX; }));
  mlb_aot_tensor tensor = Input;
  const auto refusedTensor = [&] { return refused([&](mlb_aot_model &m) { m.inputs = &tensor; }); };
  tensor.type = uint32_t(ElementType::String);
  EXPECT_TRUE(refusedTensor());
  tensor = Input;
  tensor.rank = 1000;
  EXPECT_TRUE(refusedTensor());
  tensor = Input;
  tensor.shape = nullptr;
  EXPECT_TRUE(refusedTensor());
  tensor.shape = Negative;
  EXPECT_TRUE(refusedTensor());
  tensor = {text("x"), uint32_t(ElementType::Float32), 2, Huge};
  EXPECT_TRUE(refusedTensor());
}

} // namespace
} // namespace mlbridge
