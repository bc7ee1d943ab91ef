// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <mlbridge/tensor.h>

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <map>
#include <utility>

using namespace mlbridge;

static uint32_t bitsOf(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, 4);
  return bits;
}
static float fromBits(uint32_t bits) {
  float value;
  std::memcpy(&value, &bits, 4);
  return value;
}

TEST(Half, EveryOneSurvivesTheWayThroughFloat) {
  for (uint32_t bits = 0; bits <= 0xffff; ++bits) {
    const Half half{static_cast<uint16_t>(bits)};
    ASSERT_EQ(toHalf(toFloat(half)).bits, bits);
  }
}

TEST(Half, KnownValues) {
  EXPECT_EQ(toHalf(1.0f).bits, 0x3c00);
  EXPECT_EQ(toHalf(-2.0f).bits, 0xc000);
  EXPECT_EQ(toHalf(65504.0f).bits, 0x7bff);
  EXPECT_EQ(toHalf(65519.99f).bits, 0x7bff);
  EXPECT_EQ(toHalf(65520.0f).bits, 0x7c00);
  EXPECT_EQ(toHalf(-1e30f).bits, 0xfc00);
  EXPECT_EQ(toHalf(0x1p-24f).bits, 0x0001);
  EXPECT_EQ(toHalf(0x1p-25f).bits, 0x0000);
  EXPECT_EQ(toHalf(0x1.000002p-25f).bits, 0x0001);
  EXPECT_EQ(toHalf(-0.0f).bits, 0x8000);
  EXPECT_EQ(toFloat(Half{0x0001}), 0x1p-24f);
  EXPECT_EQ(toFloat(Half{0x03ff}), 0x1.ff8p-15f);
  EXPECT_EQ(bitsOf(toFloat(Half{0xfc00})), 0xff800000u);
}

// Rounds as the nearest of the two neighbouring halves, to the even one in the middle.
TEST(Half, RoundsToNearestEvenBetweenAllNeighbours) {
  for (uint32_t bits = 0; bits < 0x7bff; ++bits) {
    const float low = toFloat(Half{static_cast<uint16_t>(bits)});
    const float high = toFloat(Half{static_cast<uint16_t>(bits + 1)});
    const float middle = low + (high - low) / 2;
    ASSERT_EQ(toHalf(middle).bits, bits + (bits & 1)) << middle;
    ASSERT_EQ(toHalf(std::nextafter(middle, low)).bits, bits);
    ASSERT_EQ(toHalf(std::nextafter(middle, high)).bits, bits + 1);
  }
}

TEST(Half, ANanStaysANanAndKeepsItsUpperPayload) {
  EXPECT_EQ(toHalf(fromBits(0x7fc00000)).bits, 0x7e00);
  EXPECT_EQ(toHalf(fromBits(0xffc42000)).bits, 0xfe21);
  EXPECT_EQ(toHalf(fromBits(0x7f800001)).bits, 0x7e00);
}

TEST(ElementType, NamesGoBothWays) {
  for (int i = 1; i <= 13; ++i) {
    const auto type = static_cast<ElementType>(i);
    ASSERT_TRUE(isValid(type));
    const Expected<ElementType> back = elementTypeNamed(name(type));
    ASSERT_TRUE(back);
    EXPECT_EQ(*back, type);
  }
  EXPECT_FALSE(isValid(static_cast<ElementType>(0)));
  EXPECT_FALSE(isValid(static_cast<ElementType>(14)));
  EXPECT_STREQ(name(static_cast<ElementType>(200)), "invalid");
  EXPECT_EQ(sizeOf(static_cast<ElementType>(200)), 0u);
  EXPECT_EQ(elementTypeNamed("float").status().code(), Code::InvalidArgument);
  EXPECT_FALSE(elementTypeNamed("invalid"));
  EXPECT_EQ(sizeOf(ElementType::Float16), 2u);
  EXPECT_EQ(sizeOf(ElementType::Bool), 1u);
  EXPECT_EQ(sizeOf(ElementType::String), 0u);
}

TEST(ElementCount, RefusesWhatOverflows) {
  const auto count = [](std::initializer_list<int64_t> shape) {
    return elementCount({shape.begin(), shape.size()});
  };
  constexpr int64_t Big = int64_t(1) << 32;
  EXPECT_EQ(count({}), 1u);
  EXPECT_EQ(count({3, 4}), 12u);
  EXPECT_EQ(count({3, 0, 4}), 0u);
  EXPECT_EQ(count({0, Big, Big}), 0u);
  EXPECT_EQ(count({Big, Big, 0}), 0u);
  EXPECT_FALSE(count({Big, Big}));
  EXPECT_FALSE(count({INT64_MAX, 2}));
  EXPECT_FALSE(count({Big, Big, Big, Big}));
  EXPECT_FALSE(count({int64_t(1) << 60})); // its bytes would not fit
  EXPECT_FALSE(count({-1}));
  EXPECT_FALSE(count({0, -5}));
}

TEST(TensorSpec, ReadsAsItIsWritten) {
  EXPECT_EQ(TensorSpec::of<float>("embedding", {300}).toString(), "embedding: float32[300]");
  EXPECT_EQ(TensorSpec::of<float>("nodes", {-1, 100}, {600, 0}).toString(),
            "nodes: float32[?<=600, 100]");
  EXPECT_EQ(TensorSpec::of<int64_t>("step").toString(), "step: int64");
  const Signature signature{{TensorSpec::of<float>("a", {2}), TensorSpec::of<int64_t>("b")},
                            {TensorSpec::of<std::string>("c", {-1})}};
  EXPECT_EQ(signature.toString(), "(a: float32[2], b: int64) -> (c: string[?])");
}

TEST(TensorSpec, CheckFindsWhatIsWrong) {
  EXPECT_TRUE(TensorSpec::of<float>("x", {2, -1}, {0, 5}).check());
  EXPECT_TRUE(TensorSpec::of<float>("x", {0}).check());
  EXPECT_FALSE(TensorSpec::of<float>("", {2}).check());
  EXPECT_FALSE(TensorSpec::of<float>("x", {-2}).check());
  EXPECT_FALSE(TensorSpec::of<float>("x", {-1, 2}, {5}).check());
  EXPECT_FALSE(TensorSpec::of<float>("x", {3}, {5}).check());
  EXPECT_FALSE(TensorSpec::of<float>("x", {-1}, {-5}).check());
  EXPECT_FALSE(TensorSpec::of<float>("x", {INT64_MAX, 4}).check());
  TensorSpec odd = TensorSpec::of<float>("x");
  odd.type = static_cast<ElementType>(77);
  EXPECT_EQ(odd.check().message(), "tensor 'x': element type 77 does not exist");
}

TEST(Signature, HasNoTensorOfMoreDimensionsThanAMessageStates) {
  Signature signature{{TensorSpec::of<float>("x", Shape(32, 1))}, {}};
  EXPECT_TRUE(signature.check());
  signature.outputs.push_back(TensorSpec::of<float>("y", Shape(33, 1)));
  const Status status = signature.check();
  EXPECT_EQ(status.code(), Code::InvalidArgument);
  EXPECT_EQ(status.message(),
            "output 0: tensor 'y' has the rank 33, a tensor has at most 32 dimensions");
}

// Quadratic, this would take minutes.
TEST(Signature, ChecksVeryManyNames) {
  Signature signature;
  for (int i = 0; i < 300'000; ++i)
    signature.inputs.push_back(TensorSpec::of<float>("x" + std::to_string(i)));
  EXPECT_TRUE(signature.check());
  signature.inputs[200'000].name = signature.inputs[7].name;
  EXPECT_EQ(signature.check().message(), "inputs 7 and 200000 are both called 'x7'");
  std::vector<AgentSpec> agents;
  for (int i = 0; i < 300'000; ++i)
    agents.push_back({"a" + std::to_string(i), {}});
  EXPECT_TRUE(checkAgents(agents));
  agents.back().name = "a1";
  EXPECT_EQ(checkAgents(agents).message(), "agents 1 and 299999 are both called 'a1'");
}

TEST(TensorSpec, AMaximumOfZeroIsNone) {
  EXPECT_EQ(TensorSpec::of<float>("x", {-1}), TensorSpec::of<float>("x", {-1}, {0}));
  EXPECT_NE(TensorSpec::of<float>("x", {-1}), TensorSpec::of<float>("x", {-1}, {3}));
}

TEST(CheckShape, HoldsAShapeToTheSpec) {
  const TensorSpec spec = TensorSpec::of<float>("x", {-1, 3}, {4, 0});
  const auto check = [&](std::initializer_list<int64_t> shape) {
    return checkShape(spec, {shape.begin(), shape.size()});
  };
  EXPECT_TRUE(check({4, 3}));
  EXPECT_TRUE(check({0, 3}));
  EXPECT_EQ(check({5, 3}).code(), Code::InvalidArgument);
  EXPECT_FALSE(check({2, 4}));
  EXPECT_FALSE(check({-1, 3}));
  EXPECT_FALSE(check({3}));
  EXPECT_NE(check({5, 3}).message().find("x: float32[?<=4, 3]"), std::string::npos);
  EXPECT_NE(check({5, 3}).message().find("[5, 3]"), std::string::npos);
}

TEST(Signature, RefusesANameThatStandsTwice) {
  const TensorSpec x = TensorSpec::of<float>("x");
  EXPECT_TRUE((Signature{{x}, {x}}.check()));
  EXPECT_FALSE((Signature{{x, x}, {}}.check()));
  EXPECT_FALSE((Signature{{}, {x, x}}.check()));
  EXPECT_EQ((Signature{{x}, {}}.findInput("x")), 0);
  EXPECT_EQ((Signature{{x}, {}}.findOutput("x")), -1);
}

TEST(Tensor, StartsAtZeroAndAligned) {
  Tensor tensor(TensorSpec::of<double>("x", {3, 5}));
  const Span<double> values = tensor.as<double>();
  ASSERT_EQ(values.size(), 15u);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(values.data()) % 64, 0u);
  for (double v : values)
    EXPECT_EQ(v, 0);
  EXPECT_TRUE(tensor.as<float>().empty());
  EXPECT_EQ(tensor.view().bytes(), 120u);
}

TEST(Tensor, HoldsStringsAndEmptyOnes) {
  Tensor strings = Tensor::of<std::string>("s", {2}, std::vector<std::string>{"a", "b"});
  ASSERT_EQ(strings.as<std::string>().size(), 2u);
  EXPECT_EQ(strings.as<std::string>()[1], "b");
  Tensor empty(TensorSpec::of<float>("x", {0, 7}));
  EXPECT_EQ(empty.count(), 0u);
  EXPECT_EQ(empty.view().shape.size(), 2u);
}

TEST(Tensor, ReshapeKeepsToTheSpecAndAllocatesOnlyToGrow) {
  const TensorSpec spec = TensorSpec::of<float>("x", {-1}, {1000});
  const int64_t hundred = 100, two = 2, many = 1001;
  Expected<Tensor> tensor = Tensor::make(spec, {&hundred, 1});
  ASSERT_TRUE(tensor);
  const float *before = tensor->as<float>().data();
  ASSERT_TRUE(tensor->reshape(spec, {&two, 1}));
  EXPECT_EQ(tensor->as<float>().size(), 2u);
  ASSERT_TRUE(tensor->reshape(spec, {&hundred, 1}));
  EXPECT_EQ(tensor->as<float>().data(), before);
  EXPECT_EQ(tensor->reshape(spec, {&many, 1}).code(), Code::InvalidArgument);
  EXPECT_EQ(tensor->as<float>().size(), 100u);
}

TEST(Tensor, AnEmptyOneTakesTheTypeItIsReshapedTo) {
  Tensor tensor;
  const int64_t three = 3;
  ASSERT_TRUE(tensor.reshape(TensorSpec::of<int64_t>("k", {-1}), {&three, 1}));
  EXPECT_EQ(tensor.as<int64_t>().size(), 3u);
  ASSERT_TRUE(tensor.reshape(TensorSpec::of<std::string>("s", {-1}), {&three, 1}));
  EXPECT_EQ(tensor.as<std::string>().size(), 3u);
}

TEST(Tensor, WhatCannotBeAllocatedIsAnError) {
  // More than the address space, so that no system grants it.
  const int64_t length = int64_t(1) << 52;
  const Expected<Tensor> numbers = Tensor::make(TensorSpec::of<double>("x", {-1}), {&length, 1});
  EXPECT_EQ(numbers.status().code(), Code::LimitExceeded);
  const Expected<Tensor> strings =
      Tensor::make(TensorSpec::of<std::string>("x", {-1}), {&length, 1});
  EXPECT_EQ(strings.status().code(), Code::LimitExceeded);
  EXPECT_EQ(Tensor(TensorSpec::of<double>("x", {-1})).count(), 0u);
}

TEST(Tensor, CopiesAreIndependentAndMovesKeepTheStorage) {
  Tensor a = Tensor::of<int32_t>("x", {2}, std::vector<int32_t>{1, 2});
  Tensor b = a;
  b.as<int32_t>()[0] = 9;
  EXPECT_EQ(a.as<int32_t>()[0], 1);
  const int32_t *data = a.as<int32_t>().data();
  const Tensor c = std::move(a);
  EXPECT_EQ(c.as<int32_t>().data(), data);
}
