// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Results of operators for NaN, infinities, overflow and nothing, as ONNX's reference has them.
#include "engine/native/test_models.h"

#include <mlbridge/model.h>

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace mlbridge {
namespace {

using namespace native;

constexpr float Infinity = std::numeric_limits<float>::infinity();
constexpr float NaN = std::numeric_limits<float>::quiet_NaN();
constexpr int Int32Type = 6, UInt32Type = 12, UInt64Type = 13;

std::string real(const std::string &name, float value) {
  return Message().bytes(1, name).real(2, value).number(20, 1).text;
}

std::vector<float> valuesOf(const std::string &op, const std::vector<float> &x,
                            const std::vector<std::string> &attributes = {}) {
  Graph g;
  const Shape shape{static_cast<int64_t>(x.size())};
  g.inputs = {info("x", FloatType, shape)};
  g.outputs = {info("y", FloatType, shape)};
  g.nodes = {node(op, {"x"}, {"y"}, attributes)};
  const ModelFile file(modelOf(g, 20));
  Model model = Model::open(file.uri());
  EXPECT_TRUE(model) << model.status().toString();
  EXPECT_TRUE(model.bind(Signature(*model.modelSignature())));
  Runner runner = model.newRunner();
  EXPECT_TRUE(runner.set("x", x));
  EXPECT_TRUE(runner.evaluate()) << runner.status().toString();
  const Span<const float> y = runner.output<float>("y");
  return {y.begin(), y.end()};
}

TEST(NativeExtremes, OutsideOfItsDomainAFunctionIsNaN) {
  for (const std::string op : {"Acosh", "Log", "Sqrt", "Acos", "Asin", "Atanh"}) {
    std::vector<float> x{-Infinity, NaN, -std::numeric_limits<float>::max()};
    for (int exponent = 1; exponent < 127; ++exponent)
      x.push_back(-std::ldexp(1.25F, exponent));
    if (op == "Acos" || op == "Asin" || op == "Atanh")
      for (size_t i = x.size(); i-- > 0;)
        x.push_back(-x[i]);
    const std::vector<float> y = valuesOf(op, x);
    for (size_t i = 0; i < x.size(); ++i)
      EXPECT_TRUE(std::isnan(y[i])) << op << " of " << x[i] << " is " << y[i];
  }
}

TEST(NativeExtremes, AFactorOfZeroTimesInfinityIsNaN) {
  for (const char *op : {"Gelu", "Mish", "HardSwish"}) {
    const std::vector<float> y = valuesOf(op, {-Infinity, Infinity, NaN, 0});
    EXPECT_TRUE(std::isnan(y[0])) << op;
    EXPECT_EQ(y[1], Infinity) << op;
    EXPECT_TRUE(std::isnan(y[2])) << op;
    EXPECT_EQ(y[3], 0) << op;
  }
}

TEST(NativeExtremes, WhatIsNeitherLessNorGreaterShrinksToZero) {
  const std::vector<float> y = valuesOf("Shrink", {NaN, 0.25F, 2, -2, Infinity, -Infinity},
                                        {real("lambd", 0.5F), real("bias", 1)});
  EXPECT_EQ(y, (std::vector<float>{0, 0, 1, -1, Infinity, -Infinity}));
  EXPECT_EQ(valuesOf("ThresholdedRelu", {NaN, 2, -2}), (std::vector<float>{0, 2, 0}));
}

TEST(NativeExtremes, WhatIsTakenZeroTimesIsNotThere) {
  Graph g;
  g.inputs = {info("a", FloatType, {1, 1}), info("c", FloatType, {1, 1})};
  g.outputs = {info("y", FloatType, {1, 1})};
  g.nodes = {node("Gemm", {"a", "a", "c"}, {"y"}, {real("beta", 0)})};
  const ModelFile file(g);
  Model model = Model::open(file.uri());
  ASSERT_TRUE(model) << model.status().toString();
  ASSERT_TRUE(model.bind(Signature(*model.modelSignature())));
  Runner runner = model.newRunner();
  ASSERT_TRUE(runner.set("a", {3.0F}));
  ASSERT_TRUE(runner.set("c", {NaN}));
  ASSERT_TRUE(runner.evaluate()) << runner.status().toString();
  EXPECT_EQ(runner.output<float>("y")[0], 9.0F);
}

TEST(NativeExtremes, HardmaxTakesNaNForGreatest) {
  EXPECT_EQ(valuesOf("Hardmax", {1, NaN, 3, NaN}, {integer("axis", 0)}),
            (std::vector<float>{0, 1, 0, 0}));
}

// ---- integers ----------------------------------------------------------------------------------

template <typename T>
std::vector<T> product(const std::string &op, int type, const std::vector<T> &a,
                       const std::vector<T> &b, const std::vector<std::string> &attributes = {},
                       bool isConstant = false) {
  Graph g;
  g.inputs = {info("a", type, {2, 2})};
  g.outputs = {info("y", type, {2, 2})};
  if (isConstant)
    g.initializers = {tensorOf(type, "b", {2, 2},
                               {reinterpret_cast<const char *>(b.data()), b.size() * sizeof(T)})};
  else
    g.inputs.push_back(info("b", type, {2, 2}));
  g.nodes = {node(op, {"a", "b"}, {"y"}, attributes)};
  const ModelFile file(modelOf(g, 20));
  Model model = Model::open(file.uri());
  EXPECT_TRUE(model) << model.status().toString();
  EXPECT_TRUE(model.bind(Signature(*model.modelSignature())));
  Runner runner = model.newRunner();
  EXPECT_TRUE(runner.set("a", a));
  EXPECT_TRUE(isConstant || runner.set("b", b));
  EXPECT_TRUE(runner.evaluate()) << runner.status().toString();
  const Span<const T> y = runner.output<T>("y");
  return {y.begin(), y.end()};
}

template <typename T> void expectWrapping(int type) {
  using U = std::make_unsigned_t<T>;
  const T most = std::numeric_limits<T>::max(), least = std::numeric_limits<T>::min();
  const std::vector<T> a{most, static_cast<T>(most - 2), T(3), least};
  for (const std::vector<T> &b :
       {std::vector<T>{most, T(5), static_cast<T>(most - 2), T(7)}, {T(1), T(2), T(3), T(4)}}) {
    const auto element = [&](const std::vector<T> &left, size_t row, size_t column) {
      return static_cast<T>(U(left[2 * row]) * U(b[column]) +
                            U(left[2 * row + 1]) * U(b[2 + column]));
    };
    const std::vector<T> expected{element(a, 0, 0), element(a, 0, 1), element(a, 1, 0),
                                  element(a, 1, 1)};
    const std::vector<T> turned{a[0], a[2], a[1], a[3]};
    for (const bool isConstant : {false, true}) {
      EXPECT_EQ(product("MatMul", type, a, b, {}, isConstant), expected);
      EXPECT_EQ(product("Gemm", type, turned, b, {integer("transA", 1)}, isConstant), expected);
    }
    std::vector<T> tripled;
    for (const T value : expected)
      tripled.push_back(static_cast<T>(U(value) * U(3)));
    EXPECT_EQ(product("Gemm", type, a, b, {real("alpha", 3)}), tripled);
  }
}

TEST(NativeExtremes, ProductsOfIntegersWrap) {
  expectWrapping<int32_t>(Int32Type);
  expectWrapping<uint32_t>(UInt32Type);
  expectWrapping<int64_t>(Int64Type);
  expectWrapping<uint64_t>(UInt64Type);
}

// Matrices of a batch, vectors, and no elements at all.
TEST(NativeExtremes, ProductsOfIntegersBroadcast) {
  struct Case {
    Shape a, b, y;
  };
  for (const Case &c : {Case{{2, 1, 2, 3}, {4, 3, 2}, {2, 4, 2, 2}},
                        {{3}, {3}, {}},
                        {{3}, {2, 3, 2}, {2, 2}},
                        {{2, 3}, {3}, {2}},
                        {{2, 0}, {0, 3}, {2, 3}},
                        {{0, 2}, {2, 3}, {0, 3}}}) {
    Graph g;
    g.inputs = {info("a", Int64Type, c.a), info("b", Int64Type, c.b)};
    g.outputs = {info("y", Int64Type, c.y)};
    g.nodes = {node("MatMul", {"a", "b"}, {"y"})};
    const ModelFile file(g);
    Model model = Model::open(file.uri());
    ASSERT_TRUE(model) << model.status().toString();
    ASSERT_TRUE(model.bind(Signature(*model.modelSignature())));
    Runner runner = model.newRunner();
    const auto fill = [&](const char *name, const Shape &shape) {
      std::vector<int64_t> values(elementCount(shape).value_or(0), (int64_t(1) << 62) + 1);
      return runner.set(name, values);
    };
    ASSERT_TRUE(fill("a", c.a) && fill("b", c.b));
    ASSERT_TRUE(runner.evaluate()) << runner.status().toString();
    // (2^62 + 1)² is 2^63 + 1 modulo 2^64.
    const uint64_t one = (uint64_t(1) << 63) + 1;
    for (const int64_t value : runner.output<int64_t>("y"))
      EXPECT_EQ(static_cast<uint64_t>(value), one * static_cast<uint64_t>(c.a.back()));
  }
}

TEST(NativeExtremes, AFractionOfAProductOfIntegersIsRefused) {
  Graph g;
  g.inputs = {info("a", Int64Type, {2, 2})};
  g.outputs = {info("y", Int64Type, {2, 2})};
  g.nodes = {node("Gemm", {"a", "a"}, {"y"}, {real("alpha", 0.5F)})};
  const ModelFile file(g);
  EXPECT_EQ(Model::open(file.uri()).status().code(), Code::Unsupported);
}

// ---- lengths -----------------------------------------------------------------------------------

TEST(NativeExtremes, SplitsIntoPartsOfNothing) {
  for (const int64_t length : {0, 1, 3}) {
    Graph g;
    g.inputs = {info("x", FloatType, {length, 2})};
    std::vector<std::string> names;
    for (int64_t i = 0; i < 5; ++i) {
      names.push_back("y" + std::to_string(i));
      g.outputs.push_back(info(names.back(), FloatType, {i < length, 2}));
    }
    g.nodes = {node("Split", {"x"}, names, {integer("axis", 0), integer("num_outputs", 5)})};
    const ModelFile file(modelOf(g, 18));
    const Model model = Model::open(file.uri());
    EXPECT_TRUE(model) << model.status().toString();
  }
}

Shape shapeOf(const std::string &node, const Shape &x, const std::vector<int64_t> &numbers) {
  Graph g;
  g.inputs = {info("x", FloatType, x)};
  g.outputs = {info("y", FloatType, Shape(numbers.size() == 4 ? 2 : numbers.size(), -1))};
  g.initializers = {ints("numbers", {static_cast<int64_t>(numbers.size())}, numbers)};
  g.nodes = {node};
  const ModelFile file(g);
  const Model model = Model::open(file.uri());
  EXPECT_TRUE(model) << model.status().toString();
  return model ? model.modelSignature()->outputs[0].shape : Shape{};
}

TEST(NativeExtremes, NothingIsReshapedAsSomethingWouldBe) {
  const std::string reshape = node("Reshape", {"x", "numbers"}, {"y"});
  EXPECT_EQ(shapeOf(reshape, {0, 6}, {0, -1}), (Shape{0, 6}));
  EXPECT_EQ(shapeOf(reshape, {0, 6}, {0, -1, 2}), (Shape{0, 3, 2}));
  EXPECT_EQ(shapeOf(reshape, {0, 3}, {-1, 2}), (Shape{0, 2}));
  EXPECT_EQ(shapeOf(reshape, {3, 2}, {0, -1}), (Shape{3, 2}));
}

TEST(NativeExtremes, NothingIsPaddedToNothing) {
  const std::string mode = Message().bytes(1, "mode").bytes(4, "reflect").number(20, 3).text;
  EXPECT_EQ(shapeOf(node("Pad", {"x", "numbers"}, {"y"}, {mode}), {0, 1}, {0, 1, 0, 0}),
            (Shape{0, 2}));
}

// The largest number is an end like any other: only forwards is it that of the tensor.
TEST(NativeExtremes, BackwardsToTheLargestNumberThereIsNothing) {
  const int64_t Most = std::numeric_limits<int32_t>::max();
  const auto sliced = [](int64_t from, int64_t to, int64_t step) {
    Graph g;
    g.inputs = {info("x", FloatType, {5})};
    g.outputs = {info("y", FloatType, {-1})};
    g.initializers = {ints("from", {1}, {from}), ints("to", {1}, {to}), ints("axis", {1}, {0}),
                      ints("step", {1}, {step})};
    g.nodes = {node("Slice", {"x", "from", "to", "axis", "step"}, {"y"})};
    const ModelFile file(g);
    const Model model = Model::open(file.uri());
    return model ? model.modelSignature()->outputs[0].shape[0] : int64_t(-1);
  };
  EXPECT_EQ(sliced(-1, Most, -1), 0);
  EXPECT_EQ(sliced(-1, -Most - 1, -1), 5);
  EXPECT_EQ(sliced(0, Most, 1), 5);
}

} // namespace
} // namespace mlbridge
