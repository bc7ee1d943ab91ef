// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <mlbridge/function.h>

#include <gtest/gtest.h>

#include <stdexcept>

using namespace mlbridge;

namespace {

const Signature InOut{{TensorSpec::of<int64_t>("in")},
                      {TensorSpec::of<int64_t>("out"), TensorSpec::of<std::string>("text"),
                       TensorSpec::of<float>("list", {-1}, {4})}};

Status resizeTo(FunctionCall &call, int64_t length) {
  return call.resizeOutput(2, {&length, 1}).status();
}

Runner runnerOf(Model model, const Signature &signature = InOut) {
  (void)model.bind(signature);
  return model.newRunner();
}

} // namespace

TEST(Function, OutputsStartAtZeroEachTime) {
  int calls = 0;
  Runner runner = runnerOf(fromFunction(InOut, [&](FunctionCall &call) {
    EXPECT_EQ(call.out<int64_t>("out")[0], 0);
    EXPECT_EQ(call.out<std::string>("text")[0], "");
    EXPECT_TRUE(call.out<float>("list").empty());
    const int64_t two = 2;
    const Expected<TensorView> list = call.resizeOutput(2, {&two, 1});
    EXPECT_EQ(list->as<float>()[1], 0.0f);
    list->as<float>()[1] = 5;
    call.out<int64_t>("out")[0] = ++calls;
    call.out<std::string>("text")[0] = "x";
    return Status();
  }));
  EXPECT_EQ(*runner.evaluate<int64_t>(), 1) << runner.status().toString();
  EXPECT_EQ(*runner.evaluate<int64_t>(), 2);
  EXPECT_EQ(runner.output<float>("list").size(), 2u);
  EXPECT_EQ(runner.output<float>("list")[1], 5.0f);
}

TEST(Function, WhatItThrowsIsAPolicyThatFailed) {
  Runner runner = runnerOf(fromFunction(InOut, [](FunctionCall &call) -> Status {
    if (call.in<int64_t>("in")[0] == 1)
      throw std::runtime_error("division by zero");
    if (call.in<int64_t>("in")[0] == 2)
      throw 7;
    if (call.in<int64_t>("in")[0] == 3)
      return Status(Code::Busy, "not now");
    return resizeTo(call, 0);
  }));
  ASSERT_TRUE(runner.set("in", int64_t(1)));
  EXPECT_EQ(runner.evaluate().toString(),
            "policy failed: the function threw an exception: division by zero");
  ASSERT_TRUE(runner.set("in", int64_t(2)));
  EXPECT_EQ(runner.evaluate().code(), Code::PolicyFailed);
  ASSERT_TRUE(runner.set("in", int64_t(3)));
  EXPECT_EQ(runner.evaluate().code(), Code::Busy) << "its own status is passed on";
  ASSERT_TRUE(runner.set("in", int64_t(4)));
  EXPECT_TRUE(runner.evaluate()) << "and it lives on";
}

TEST(Function, ADynamicOutputMustBeGivenAShapeThatFits) {
  int64_t length = -1;
  Runner runner = runnerOf(fromFunction(
      InOut, [&](FunctionCall &call) { return length < 0 ? Status() : resizeTo(call, length); }));
  const Status forgotten = runner.evaluate();
  EXPECT_EQ(forgotten.code(), Code::PolicyFailed);
  EXPECT_NE(forgotten.message().find("'list: float32[?<=4]'"), std::string::npos);
  length = 4;
  EXPECT_TRUE(runner.evaluate());
  length = 5;
  EXPECT_EQ(runner.evaluate().code(), Code::PolicyFailed);
  length = -1;
  EXPECT_FALSE(runner.evaluate()) << "the shape of an earlier call does not count";
}

TEST(Function, EachRunnerHasAFunctionOfItsOwn) {
  FunctionModel model;
  model.newFunction = [] {
    return [step = int64_t(0)](FunctionCall &call) mutable {
      call.out<int64_t>("n")[0] = ++step;
      return Status();
    };
  };
  Model counting = fromFunction(std::move(model));
  EXPECT_EQ(counting.modelSignature(), nullptr);
  const Signature n{{}, {TensorSpec::of<int64_t>("n")}};
  ASSERT_TRUE(counting.bind(n));
  Runner a = counting.newRunner(), b = counting.newRunner();
  EXPECT_EQ(*a.evaluate<int64_t>(), 1);
  EXPECT_EQ(*a.evaluate<int64_t>(), 2);
  EXPECT_EQ(*b.evaluate<int64_t>(), 1);
}

TEST(Function, NamesAndTypesThatAreWrongGiveNothing) {
  Runner runner = runnerOf(fromFunction(InOut, [](FunctionCall &call) {
    EXPECT_TRUE(call.in<int64_t>("inn").empty());
    EXPECT_TRUE(call.in<float>("in").empty());
    EXPECT_TRUE(call.out<float>("out").empty());
    EXPECT_EQ(call.input(9).data, nullptr);
    EXPECT_EQ(call.output(9).data, nullptr);
    EXPECT_FALSE(call.resizeOutput(9, {}));
    EXPECT_FALSE(call.resizeOutput(1, Shape{7}));
    return resizeTo(call, 1);
  }));
  EXPECT_TRUE(runner.evaluate()) << runner.status().toString();
}

TEST(Function, AModelWithoutAFunctionOrSignatureIsRefused) {
  EXPECT_FALSE(fromFunction(FunctionModel()));
  EXPECT_FALSE(fromFunction(InOut, nullptr));
  Signature twice = InOut;
  twice.inputs.push_back(twice.inputs[0]);
  EXPECT_EQ(fromFunction(twice, [](FunctionCall &) { return Status(); }).status().code(),
            Code::InvalidModel);
  FunctionModel empty;
  empty.newFunction = [] { return Function(); };
  EXPECT_EQ(runnerOf(fromFunction(empty)).status().code(), Code::InvalidArgument);
  FunctionModel throwing;
  throwing.newFunction = []() -> Function { throw std::runtime_error("no"); };
  EXPECT_EQ(runnerOf(fromFunction(throwing)).status().code(), Code::PolicyFailed);
}
