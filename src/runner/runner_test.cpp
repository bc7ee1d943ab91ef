// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A Runner as a pass uses it, over function models.
#include <mlbridge/function.h>

#include <gtest/gtest.h>

#include <atomic>
#include <thread>

using namespace mlbridge;
using namespace std::chrono_literals;

namespace {

const Signature Sum{{TensorSpec::of<float>("x", {3}), TensorSpec::of<int64_t>("scale")},
                    {TensorSpec::of<float>("y")}};

Status sum(FunctionCall &call) {
  float total = 0;
  for (float v : call.in<float>("x"))
    total += v;
  call.out<float>("y")[0] = total * static_cast<float>(call.in<int64_t>("scale")[0]);
  return Status();
}

Runner runnerOf(Model model, const Signature &signature) {
  (void)model.bind(signature);
  return model.newRunner();
}

Runner sumRunner() { return runnerOf(fromFunction(Sum, sum), Sum); }

} // namespace

TEST(Runner, AnswersThroughThreeLines) {
  Runner runner = sumRunner();
  ASSERT_TRUE(runner) << runner.status().toString();
  EXPECT_TRUE(runner.set("x", std::vector<float>{1, 2, 3}));
  EXPECT_TRUE(runner.set("scale", int64_t(2)));
  EXPECT_EQ(runner.evaluateOr<float>([] { return -1.0f; }), 12.0f);
  EXPECT_EQ(*runner.evaluate<float>(), 12.0f) << "inputs keep their values";
  EXPECT_EQ(runner.output<float>("y")[0], 12.0f);
  runner.input<float>("x")[0] = 5;
  EXPECT_EQ(*runner.evaluate<float>(), 20.0f);
}

TEST(Runner, WithoutAModelFallsBackAndSaysWhy) {
  Runner runner = open("function:no-such-function", Sum);
  EXPECT_EQ(runner.status().code(), Code::NotFound);
  // A pass that writes in place does not have to look first.
  ASSERT_EQ(runner.input<float>("x").size(), 3u);
  runner.input<float>("x")[2] = 1;
  EXPECT_FALSE(runner.set("x", {1.0f, 2.0f, 3.0f}));
  int asked = 0;
  EXPECT_EQ(runner.evaluateOr<float>([&] { return ++asked, 7; }), 7.0f);
  EXPECT_EQ(asked, 1);
  EXPECT_EQ(runner.status().code(), Code::NotFound);
  runner.clearStatus();
  EXPECT_EQ(runner.status().code(), Code::NotFound) << "it still has no model";
  EXPECT_TRUE(runner.output<float>("y").empty());
  EXPECT_EQ(runner.signature(), nullptr);
  EXPECT_FALSE(runner.beginEpisode("e", "c"));
}

TEST(Runner, DefaultAndMovedFromCarryAFailure) {
  Runner none;
  EXPECT_EQ(none.status().code(), Code::Unavailable);
  EXPECT_EQ(none.evaluate().code(), Code::Unavailable);
  none.input<float>("x")[300] = 1;
  EXPECT_FALSE(none.bindInput<float>("x", Span<float>()));
  EXPECT_FALSE(none.set("x", 1.0f));
  EXPECT_FALSE(none.resize<float>("x", {1}));
  EXPECT_TRUE(none.output<float>("x").empty());
  EXPECT_EQ(none.inputAt(0).data, nullptr);
  EXPECT_FALSE(none.reward(1));
  none.clearStatus();
  Runner runner = sumRunner();
  Runner moved = std::move(runner);
  EXPECT_TRUE(moved.set("x", {1.0f, 1.0f, 1.0f}));
  EXPECT_EQ(runner.evaluate().code(), Code::Unavailable); // NOLINT(bugprone-use-after-move)
  const Runner given{Status(Code::Busy, "later")};
  EXPECT_EQ(given.status().code(), Code::Busy);
  EXPECT_FALSE(Runner(Status()).status().ok());
  EXPECT_FALSE(Model().newRunner());
  EXPECT_EQ(Model().status().code(), Code::Unavailable);
}

TEST(Runner, AWrongSetNeverEndsInAnAnswerFromOldValues) {
  Runner runner = sumRunner();
  ASSERT_TRUE(runner.set("x", {1.0f, 2.0f, 3.0f}));
  ASSERT_TRUE(runner.set("scale", int64_t(1)));
  EXPECT_FALSE(runner.set("x", {1.0f}));
  EXPECT_TRUE(runner.set("scale", int64_t(2))) << "another input is fine";
  EXPECT_EQ(runner.status().code(), Code::InvalidArgument) << "and does not hide the wrong one";
  for (int i = 0; i < 2; ++i) {
    const Status status = runner.evaluate();
    EXPECT_EQ(status.code(), Code::InvalidArgument);
    EXPECT_NE(status.message().find("'x: float32[3]' was given 1 elements instead of 3"),
              std::string::npos)
        << status.message();
  }
  ASSERT_TRUE(runner.set("x", {1.0f, 1.0f, 1.0f}));
  EXPECT_TRUE(runner);
  EXPECT_EQ(*runner.evaluate<float>(), 6.0f);
  EXPECT_FALSE(runner.set("scale", 2.5));
  runner.clearStatus();
  EXPECT_EQ(*runner.evaluate<float>(), 6.0f);
}

TEST(Runner, AnUnknownNameFailsOneEvaluation) {
  Runner runner = sumRunner();
  ASSERT_TRUE(runner.set("x", {1.0f, 2.0f, 3.0f}));
  EXPECT_FALSE(runner.set("scael", int64_t(1)));
  const Status status = runner.evaluate();
  EXPECT_EQ(status.code(), Code::InvalidArgument);
  EXPECT_NE(status.message().find("'scael'; did you mean 'scale'? (inputs: x, scale)"),
            std::string::npos)
      << status.message();
  EXPECT_TRUE(runner.evaluate());
  EXPECT_TRUE(runner.status().ok());
}

namespace {

/// Writes all of it, and its first element even if it has none.
template <typename T> size_t fill(Span<T> buffer, const T &value) {
  EXPECT_NE(buffer.data(), nullptr);
  buffer.data()[0] = value;
  for (T &element : buffer)
    element = value;
  return buffer.size();
}

} // namespace

TEST(Runner, WrongTypesAndNamesGiveABufferThatNobodyReads) {
  Runner runner = sumRunner();
  ASSERT_TRUE(runner.set("x", {1, 2, 3}));
  ASSERT_TRUE(runner.set("scale", 1));
  EXPECT_EQ(fill(runner.input<double>("x"), 9.0), 3u) << "as many as it has";
  EXPECT_EQ(runner.status().code(), Code::InvalidArgument);
  EXPECT_EQ(runner.evaluate().code(), Code::InvalidArgument);
  runner.clearStatus();
  EXPECT_EQ(*runner.evaluate<float>(), 6.0f) << "what was written went nowhere";
  EXPECT_GE(fill(runner.input<float>("z"), 9.0f), 100'000u);
  EXPECT_EQ(runner.evaluate().code(), Code::InvalidArgument);
  EXPECT_NE(runner.status().message().find("no input 'z'; did you mean"), std::string::npos);
  EXPECT_GE(fill(runner.input<std::string>("t"), std::string("text")), 1000u);
  EXPECT_GE(fill(runner.input<bool>(7), true), 100'000u);
  EXPECT_NE(runner.status().message().find("no input 7 (inputs: x, scale)"), std::string::npos);
  runner.clearStatus();
  EXPECT_EQ(*runner.evaluate<float>(), 6.0f);
  Runner failed = open("function:no-such-function", Sum);
  EXPECT_GE(fill(failed.input<float>("z"), 9.0f), 100'000u);
  EXPECT_EQ(failed.status().code(), Code::NotFound);
  Runner none = open("function:no-such-function");
  EXPECT_GE(fill(none.input<int64_t>("z"), int64_t(9)), 100'000u);
}

TEST(Runner, ABufferOfLengthZeroIsThereToo) {
  const Signature signature{{TensorSpec::of<float>("x", {-1})}, {TensorSpec::of<float>("y")}};
  Runner runner =
      runnerOf(fromFunction(signature, [](FunctionCall &) { return Status(); }), signature);
  EXPECT_EQ(fill(runner.input<float>("x"), 1.0f), 0u) << "before it was resized";
  EXPECT_FALSE(runner.evaluate());
  EXPECT_EQ(fill(runner.input<double>("x"), 1.0), 0u) << "nor of the right type";
  ASSERT_TRUE(runner.resize<float>("x", {0}));
  EXPECT_EQ(fill(runner.input<float>("x"), 1.0f), 0u);
  EXPECT_TRUE(runner.evaluate()) << runner.status().toString();
}

TEST(Runner, WrongTypesAndNamesOfOutputs) {
  Runner runner = sumRunner();
  EXPECT_TRUE(runner.output<float>("y").empty()) << "there was no evaluation";
  EXPECT_TRUE(runner.evaluate());
  EXPECT_TRUE(runner.output<int64_t>("y").empty());
  EXPECT_EQ(runner.status().code(), Code::InvalidArgument);
  EXPECT_EQ(runner.evaluate<int64_t>().status().code(), Code::InvalidArgument);
  EXPECT_TRUE(runner.output<float>("nothing").empty());
  EXPECT_EQ(runner.inputAt(2).data, nullptr);
  EXPECT_EQ(runner.outputAt(1).data, nullptr);
  EXPECT_FALSE(runner.resizeAt(2, {}));
}

TEST(Runner, AllElementTypes) {
  Signature signature;
  signature.inputs = {TensorSpec::of<int8_t>("i8"),    TensorSpec::of<uint64_t>("u64"),
                      TensorSpec::of<Half>("h", {2}),  TensorSpec::of<bool>("b", {3}),
                      TensorSpec::of<double>("d"),     TensorSpec::of<std::string>("s", {2}),
                      TensorSpec::of<std::string>("t")};
  signature.outputs = {TensorSpec::of<std::string>("out")};
  Runner runner = runnerOf(fromFunction(signature,
                                        [](FunctionCall &call) {
                                          std::string text;
                                          text += std::to_string(call.in<int8_t>("i8")[0]) + " ";
                                          text += std::to_string(call.in<uint64_t>("u64")[0]) + " ";
                                          text += std::to_string(call.in<Half>("h")[1].bits) + " ";
                                          for (bool b : call.in<bool>("b"))
                                            text += b ? "T" : "F";
                                          text += std::to_string(call.in<double>("d")[0]) + " ";
                                          text += call.in<std::string>("s")[1] + " ";
                                          text += call.in<std::string>("t")[0];
                                          call.out<std::string>("out")[0] = text;
                                          return Status();
                                        }),
                           signature);
  ASSERT_TRUE(runner) << runner.status().toString();
  EXPECT_TRUE(runner.set("i8", int8_t(-128)));
  EXPECT_TRUE(runner.set("u64", (unsigned long long)UINT64_MAX));
  EXPECT_TRUE(runner.set("h", {Half{1}, Half{0x7c00}}));
  EXPECT_TRUE(runner.set("b", std::vector<bool>{true, false, true}));
  EXPECT_TRUE(runner.set("d", 0.5));
  EXPECT_TRUE(runner.set("s", std::vector<std::string>{"a", "b"}));
  EXPECT_TRUE(runner.set("t", "literal"));
  EXPECT_EQ(*runner.evaluate<std::string>(),
            "-128 18446744073709551615 31744 TFT0.500000 b literal");
}

TEST(Runner, ByIndex) {
  enum Input { X, Scale };
  Runner runner = sumRunner();
  ASSERT_TRUE(runner.set(X, {1.0f, 2.0f, 3.0f}));
  ASSERT_TRUE(runner.set(Scale, int64_t(2)));
  EXPECT_EQ(*runner.evaluate<float>(), 12.0f);
  EXPECT_EQ(runner.output<float>(0)[0], 12.0f);
  runner.input<float>(X)[0] = 5;
  EXPECT_EQ(*runner.evaluate<float>(), 20.0f);
  EXPECT_TRUE(runner.output<float>(1).empty());
  EXPECT_FALSE(runner.status());
  EXPECT_FALSE(runner.set(2, 1));
  EXPECT_EQ(runner.evaluate().code(), Code::InvalidArgument);
  EXPECT_TRUE(runner.evaluate());
  const std::string name = "x";
  EXPECT_EQ(runner.resize<float>(name, {3})->data(), runner.input<float>(X).data());
}

TEST(Runner, NumbersOfAnotherTypeAreTakenIfTheyFit) {
  const Signature signature{{TensorSpec::of<int8_t>("i8"), TensorSpec::of<int64_t>("i64", {2}),
                             TensorSpec::of<uint64_t>("u64"), TensorSpec::of<float>("f"),
                             TensorSpec::of<Half>("h"), TensorSpec::of<bool>("b"),
                             TensorSpec::of<std::string>("s")},
                            {TensorSpec::of<float>("y")}};
  Runner runner =
      runnerOf(fromFunction(signature, [](FunctionCall &) { return Status(); }), signature);
  const auto at = [&runner](size_t index) { return runner.inputAt(index); };
  EXPECT_TRUE(runner.set("i8", -128));
  EXPECT_EQ(at(0).as<int8_t>()[0], -128);
  EXPECT_TRUE(runner.set("i8", size_t(127)));
  EXPECT_TRUE(runner.set("i8", 'a'));
  EXPECT_EQ(at(0).as<int8_t>()[0], 'a');
  EXPECT_TRUE(runner.set("i8", 7.0));
  EXPECT_TRUE(runner.set("i64", {1, 2}));
  EXPECT_EQ(at(1).as<int64_t>()[1], 2);
  EXPECT_TRUE(runner.set("i64", std::vector<uint8_t>{3, 255}));
  EXPECT_EQ(at(1).as<int64_t>()[1], 255);
  EXPECT_TRUE(runner.set("u64", 5));
  EXPECT_EQ(at(2).as<uint64_t>()[0], 5u);
  EXPECT_TRUE(runner.set("f", 3));
  EXPECT_EQ(at(3).as<float>()[0], 3.0f);
  EXPECT_TRUE(runner.set("f", 0.1)) << "rounded";
  EXPECT_EQ(at(3).as<float>()[0], 0.1f);
  EXPECT_TRUE(runner.set("f", std::numeric_limits<double>::infinity()));
  EXPECT_TRUE(runner.set("h", 1.5));
  EXPECT_EQ(at(4).as<Half>()[0], toHalf(1.5f));
  EXPECT_TRUE(runner.set("b", 1));
  EXPECT_TRUE(at(5).as<bool>()[0]);
  EXPECT_TRUE(runner.evaluate());

  const auto refused = [&runner](const char *input, const auto &value) {
    const Status status = runner.set(input, value);
    EXPECT_EQ(status.code(), Code::InvalidArgument) << input;
    EXPECT_EQ(runner.evaluate().code(), Code::InvalidArgument) << "and nothing is asked";
    runner.clearStatus();
    return status.message();
  };
  EXPECT_EQ(refused("i8", 128), "input 'i8: int8' was given 128, which is not in int8's range of "
                                "-128 to 127");
  EXPECT_EQ(refused("i8", 2.5),
            "input 'i8: int8' was given 2.5, which int8 cannot represent exactly");
  EXPECT_EQ(
      refused("i64", std::vector<double>{1, 1e19}),
      "input 'i64: int64[2]' was given 10000000000000000000, which is not in int64's range of "
      "-9223372036854775808 to 9223372036854775807, at index 1");
  EXPECT_EQ(at(1).as<int64_t>()[0], 3) << "nothing was written";
  refused("i64", std::vector<uint64_t>{UINT64_MAX, 0});
  refused("u64", -1);
  refused("u64", std::numeric_limits<float>::quiet_NaN());
  refused("f", 16'777'217);
  refused("f", 1e300);
  refused("h", 65'520);
  refused("b", 2);
  refused("s", 1);
  refused("f", "1");
}

TEST(Runner, BuffersOfTheCallersOwn) {
  for (const bool isCopied : {false, true}) {
    ASSERT_TRUE(registerFunction(isCopied ? "bound-copied" : "bound", [](const Uri &) {
      FunctionModel model;
      model.signature = Signature{Sum.inputs, {TensorSpec::of<float>("y", {1})}};
      model.newFunction = [] { return sum; };
      return Expected<FunctionModel>(std::move(model));
    }));
    const Signature pass{Sum.inputs, {TensorSpec::of<float>("y", {1})}};
    // Choosing stands between the two, and has them copied.
    Runner runner = open(isCopied ? "function:bound-copied?choose=argmax" : "function:bound", pass);
    std::vector<float> x{1, 2, 3};
    const int64_t scale[] = {2};
    std::array<float, 1> y{};
    ASSERT_TRUE(runner.bindInput<float>("x", x)) << runner.status().toString();
    ASSERT_TRUE(runner.bindInput<const int64_t>(1, scale));
    ASSERT_TRUE(runner.bindOutput<float>("y", y));
    EXPECT_EQ(runner.input<float>("x").data(), x.data());
    ASSERT_TRUE(runner.evaluate());
    EXPECT_EQ(y[0], 12.0f);
    EXPECT_EQ(runner.output<float>("y").data(), y.data());
    x[0] = 5;
    ASSERT_TRUE(runner.evaluate());
    EXPECT_EQ(y[0], 20.0f);
    ASSERT_TRUE(runner.set("x", {1.0f, 1.0f, 1.0f})) << "which ends it";
    EXPECT_EQ(x[0], 5.0f);
    ASSERT_TRUE(runner.bindOutput<float>("y", {}));
    ASSERT_TRUE(runner.evaluate());
    EXPECT_EQ(y[0], 20.0f);
    EXPECT_EQ(runner.output<float>("y")[0], 6.0f);

    EXPECT_FALSE(runner.bindInput<float>("x", Span<float>(x.data(), 2)));
    EXPECT_FALSE(runner.evaluate());
    EXPECT_FALSE(runner.evaluate()) << "until it is cleared";
    runner.clearStatus();
    EXPECT_FALSE(runner.bindInput<double>("x", {}));
    EXPECT_FALSE(runner.bindOutput<float>("z", y));
    EXPECT_FALSE(runner.evaluate());
    runner.clearStatus();
    EXPECT_TRUE(runner.evaluate());
  }
}

TEST(Runner, BoundBuffersOfDynamicLength) {
  const Signature signature{{TensorSpec::of<float>("x", {-1})}, {TensorSpec::of<float>("y", {-1})}};
  Signature pass = signature;
  pass.inputs.push_back(TensorSpec::of<int64_t>("unknown to the model"));
  Runner runner = runnerOf(fromFunction(signature,
                                        [](FunctionCall &call) {
                                          const Span<const float> x = call.in<float>("x");
                                          const int64_t n = static_cast<int64_t>(x.size());
                                          auto y = call.resizeOutput(0, {&n, 1});
                                          for (size_t i = 0; i < x.size(); ++i)
                                            y->as<float>()[i] = x[i] + 1;
                                          return Status();
                                        }),
                           pass);
  float x[] = {1, 2, 3}, y[2] = {};
  int64_t unknown = 4;
  ASSERT_TRUE(runner.bindInput<float>("x", Span<float>(x, 2)));
  ASSERT_TRUE(runner.bindInput<int64_t>(1, Span<int64_t>(&unknown, 1)));
  ASSERT_TRUE(runner.bindOutput<float>("y", y));
  ASSERT_TRUE(runner.evaluate()) << runner.status().toString();
  EXPECT_EQ(y[1], 3.0f);
  EXPECT_EQ(runner.output<float>("y").size(), 2u);
  ASSERT_TRUE(runner.bindInput<float>("x", x));
  EXPECT_EQ(runner.evaluate().code(), Code::LimitExceeded) << "there is room for two";
  ASSERT_TRUE(runner.resize<float>("x", {1}));
  runner.input<float>("x")[0] = 6;
  ASSERT_TRUE(runner.evaluate());
  EXPECT_EQ(y[0], 7.0f);
  EXPECT_EQ(x[0], 1.0f);
}

TEST(Runner, DynamicLengthsFollowTheCountOrResize) {
  const Signature signature{
      {TensorSpec::of<float>("row", {-1, 2}, {3, 0}), TensorSpec::of<float>("grid", {-1, -1})},
      {TensorSpec::of<float>("out", {-1})}};
  Runner runner = runnerOf(fromFunction(signature,
                                        [](FunctionCall &call) {
                                          const int64_t n = call.input(0).shape[0];
                                          auto out = call.resizeOutput(0, {&n, 1});
                                          if (!out)
                                            return out.status();
                                          for (float &v : out->as<float>())
                                            v = static_cast<float>(call.input(1).count);
                                          return Status();
                                        }),
                           signature);
  ASSERT_TRUE(runner) << runner.status().toString();
  EXPECT_EQ(runner.evaluate().code(), Code::InvalidArgument);
  EXPECT_NE(runner.status().message().find("neither set nor resized"), std::string::npos);
  EXPECT_TRUE(runner.set("row", {1.0f, 2.0f, 3.0f, 4.0f}));
  EXPECT_FALSE(runner.set("grid", {1.0f, 2.0f})) << "which lengths?";
  const Expected<Span<float>> grid = runner.resize<float>("grid", {2, 5});
  ASSERT_TRUE(grid) << grid.status().toString();
  EXPECT_EQ(grid->size(), 10u);
  ASSERT_TRUE(runner.evaluate()) << runner.status().toString();
  ASSERT_EQ(runner.output<float>("out").size(), 2u);
  EXPECT_EQ(runner.output<float>("out")[1], 10.0f);
  EXPECT_TRUE(runner.set("row", std::vector<float>()));
  ASSERT_TRUE(runner.evaluate()) << runner.status().toString();
  EXPECT_TRUE(runner.output<float>("out").empty());
  EXPECT_TRUE(runner.status().ok()) << "nothing is a legal answer";
  EXPECT_EQ(runner.evaluate<float>().status().code(), Code::PolicyFailed) << "but has no element";
  EXPECT_FALSE(runner.set("row", {1.0f})) << "half a row";
  EXPECT_FALSE(runner.set("row", std::vector<float>(8))) << "over the maximum";
  EXPECT_FALSE(runner.resize<float>("row", {4, 2}));
  EXPECT_FALSE(runner.resize<float>("row", {2}));
  EXPECT_FALSE(runner.resize<float>("grid", {int64_t(1) << 31, int64_t(1) << 31}));
  EXPECT_FALSE(runner.resize<double>("row", {1, 2}));
  EXPECT_FALSE(runner.evaluate());
}

TEST(Runner, ABufferThatCannotBeHadLeavesNone) {
  const Signature signature{{TensorSpec::of<float>("x", {-1})}, {TensorSpec::of<float>("y")}};
  Signature pass = signature;
  pass.inputs.push_back(TensorSpec::of<float>("scratch", {-1}));
  Runner runner = runnerOf(fromFunction(signature, [](FunctionCall &) { return Status(); }), pass);
  for (const char *name : {"x", "scratch"}) {
    ASSERT_TRUE(runner.set(name, {1.0f, 2.0f}));
    EXPECT_EQ(runner.resize<float>(name, {int64_t(1) << 52}).status().code(), Code::LimitExceeded);
    EXPECT_TRUE(runner.input<float>(name).empty());
    EXPECT_EQ(runner.evaluate().code(), Code::LimitExceeded);
    ASSERT_TRUE(runner.set(name, {1.0f, 2.0f})) << "it recovers";
    EXPECT_EQ(runner.input<float>(name)[1], 2.0f);
  }
  EXPECT_TRUE(runner.evaluate());
}

TEST(Runner, InputsThatTheModelDoesNotKnowHaveABufferAllTheSame) {
  Signature pass = Sum;
  pass.inputs.insert(pass.inputs.begin(), TensorSpec::of<double>("extra", {1000}));
  pass.inputs.push_back(TensorSpec::of<float>("list", {-1}));
  Runner runner = runnerOf(fromFunction(Sum, sum), pass);
  ASSERT_TRUE(runner) << runner.status().toString();
  ASSERT_EQ(runner.input<double>("extra").size(), 1000u);
  runner.input<double>("extra")[999] = 1;
  EXPECT_TRUE(runner.set("list", {1.0f, 2.0f}));
  EXPECT_TRUE(runner.set("x", {1.0f, 2.0f, 3.0f}));
  EXPECT_TRUE(runner.set("scale", int64_t(1)));
  EXPECT_EQ(*runner.evaluate<float>(), 6.0f);
  EXPECT_EQ(*runner.signature(), pass);
}

TEST(Runner, ALeadingDimensionOfOneIsTheModelsOwnBusiness) {
  const Signature model{
      {TensorSpec::of<float>("x", {-1, 3}), TensorSpec::of<int64_t>("scale", {1})},
      {TensorSpec::of<float>("y", {-1, 1})}};
  const auto answer = [](FunctionCall &call) {
    EXPECT_EQ(toString(call.input(0).shape), "[1, 3]");
    if (Status s = sum(call); !s)
      return s;
    return Status();
  };
  const Signature pass{{TensorSpec::of<float>("x", {3}), TensorSpec::of<int64_t>("scale")},
                       {TensorSpec::of<float>("y", {1})}};
  Runner runner = runnerOf(fromFunction(model, answer), pass);
  ASSERT_TRUE(runner) << runner.status().toString();
  EXPECT_TRUE(runner.set("x", {1.0f, 2.0f, 3.0f}));
  EXPECT_TRUE(runner.set("scale", int64_t(3)));
  EXPECT_EQ(*runner.evaluate<float>(), 18.0f);
  EXPECT_EQ(toString(runner.inputAt(0).shape), "[3]");
  EXPECT_EQ(toString(runner.outputAt(0).shape), "[1]");
}

TEST(Runner, BatchAndDynamicTogether) {
  const Signature model{{TensorSpec::of<float>("x", {1, -1, 2})},
                        {TensorSpec::of<float>("y", {1})}};
  const Signature pass{{TensorSpec::of<float>("x", {-1, 2})}, {TensorSpec::of<float>("y")}};
  Runner runner = runnerOf(fromFunction(model,
                                        [](FunctionCall &call) {
                                          EXPECT_EQ(call.input(0).shape.size(), 3u);
                                          call.out<float>("y")[0] =
                                              static_cast<float>(call.input(0).shape[1]);
                                          return Status();
                                        }),
                           pass);
  ASSERT_TRUE(runner.set("x", std::vector<float>(6))) << runner.status().toString();
  EXPECT_EQ(*runner.evaluate<float>(), 3.0f);
  ASSERT_TRUE(runner.resize<float>("x", {4, 2}));
  EXPECT_EQ(toString(runner.inputAt(0).shape), "[4, 2]");
  EXPECT_EQ(*runner.evaluate<float>(), 4.0f);
}

TEST(Runner, AnAnswerOfAnotherShapeIsTheModelsFailure) {
  const Signature model{{}, {TensorSpec::of<float>("y", {-1})}};
  const Signature pass{{}, {TensorSpec::of<float>("y", {2})}};
  // The model promised nothing about the length, the pass takes two.
  FunctionModel odd;
  odd.newFunction = [] {
    return [](FunctionCall &call) {
      const int64_t three = 3;
      return call.resizeOutput(0, {&three, 1}).status();
    };
  };
  odd.signature = model;
  Runner runner = runnerOf(fromFunction(odd), pass);
  ASSERT_TRUE(runner) << runner.status().toString();
  EXPECT_EQ(runner.evaluate().code(), Code::PolicyFailed) << runner.status().toString();
  EXPECT_EQ(runner.outputAt(0).data, nullptr);
}

TEST(Runner, AFailedEvaluationHasNoOutputs) {
  Runner runner = sumRunner();
  ASSERT_TRUE(runner.evaluate());
  ASSERT_EQ(runner.output<float>("y").size(), 1u);
  ASSERT_FALSE(runner.evaluate(Deadline::after(0s)));
  EXPECT_TRUE(runner.output<float>("y").empty());
  EXPECT_EQ(runner.outputAt(0).data, nullptr);
  EXPECT_EQ(runner.status().code(), Code::DeadlineExceeded) << "which says why";
}

TEST(Runner, ADeadlineThatHasPassedIsNoCall) {
  int calls = 0;
  Runner runner = runnerOf(fromFunction(Sum,
                                        [&](FunctionCall &) {
                                          ++calls;
                                          return Status();
                                        }),
                           Sum);
  EXPECT_EQ(runner.evaluate(Deadline::after(0s)).code(), Code::DeadlineExceeded);
  EXPECT_EQ(calls, 0);
  EXPECT_EQ(runner.evaluateOr<float>([] { return 3.0f; }), 0.0f);
  EXPECT_EQ(calls, 1);
}

TEST(Runner, EightThreadsShareAModel) {
  Model model = fromFunction(Sum, sum);
  ASSERT_TRUE(model.bind(Sum));
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  threads.reserve(8);
  for (int t = 0; t < 8; ++t)
    threads.emplace_back([&, t] {
      Runner runner = model.newRunner();
      for (int i = 0; i < 2000; ++i) {
        const float v = static_cast<float>(t * 1000 + i % 7);
        if (!runner.set("x", {v, 1.0f, 0.0f}) || !runner.set("scale", int64_t(2)) ||
            runner.evaluateOr<float>([] { return -1.0f; }) != 2 * v + 2)
          ++wrong;
      }
    });
  for (std::thread &thread : threads)
    thread.join();
  EXPECT_EQ(wrong, 0);
}
