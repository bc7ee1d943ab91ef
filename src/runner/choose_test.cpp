// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Arg-max and sampling, as calls and as options of a URI.
#include "testing/server_thread.h"
#include <mlbridge/function.h>
#include <mlbridge/sampler.h>

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

using namespace mlbridge;

namespace {

constexpr float None = -std::numeric_limits<float>::infinity();
constexpr float NaN = std::numeric_limits<float>::quiet_NaN();

template <typename T> Expected<int64_t> argMaxOf(std::initializer_list<T> values) {
  return argMax(Span<const T>(values.begin(), values.size()));
}

TEST(ArgMax, TakesTheFirstOfTheLargest) {
  EXPECT_EQ(*argMaxOf({1.f, 3.f, 3.f, 2.f}), 1);
  EXPECT_EQ(*argMaxOf({None, -1.0f, None}), 1);
  EXPECT_EQ(*argMaxOf({-2.0, -1.0}), 1);
  EXPECT_EQ(*argMaxOf({1.0, std::numeric_limits<double>::infinity()}), 1);
  EXPECT_EQ(*argMaxOf({toHalf(0.5F), toHalf(2.0F), toHalf(-9.0F)}), 1);
}

TEST(ArgMax, SaysWhyThereIsNoChoice) {
  EXPECT_EQ(argMax(Span<const float>()).status().code(), Code::PolicyFailed);
  const Status nan = argMaxOf({1.f, NaN, 2.f}).status();
  EXPECT_EQ(nan.code(), Code::PolicyFailed);
  EXPECT_NE(nan.message().find("element 1 of 3"), std::string::npos) << nan.message();
  EXPECT_NE(argMaxOf({None, None}).status().message().find("-inf"), std::string::npos);
}

TEST(Sampler, DrawsAsOftenAsSoftmaxSays) {
  Sampler sampler(7);
  const float logits[] = {std::log(1.f), None, std::log(2.f), std::log(5.f)};
  int counts[4] = {};
  for (int i = 0; i < 80000; ++i)
    ++counts[*sampler.sample(logits)];
  EXPECT_EQ(counts[1], 0);
  EXPECT_NEAR(counts[0], 10000, 400); // about four standard deviations
  EXPECT_NEAR(counts[2], 20000, 500);
  EXPECT_NEAR(counts[3], 50000, 560);
}

TEST(Sampler, GivesTheSameDrawsForTheSameSeedAndModule) {
  const double logits[] = {0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7};
  const auto draws = [&](Sampler &sampler) {
    std::string all;
    for (int i = 0; i < 24; ++i)
      all += static_cast<char>('0' + *sampler.sample(logits));
    return all;
  };
  Sampler a(1), b(1), c(2);
  const std::string first = draws(a);
  EXPECT_EQ(first, draws(b));
  EXPECT_NE(first, draws(c));
  EXPECT_NE(first, draws(a)); // goes on
  a.restart("episode", "f.c");
  b.restart("episode", "f.c");
  EXPECT_EQ(draws(a), draws(b));
  a.restart("episode", "g.c");
  b.restart("episode", "f.c");
  EXPECT_NE(draws(a), draws(b));
  a.restart();
  EXPECT_EQ(draws(a), first);
  // The bits of a machine are those of every other.
  EXPECT_EQ(first, "765603242237167103527427");
}

TEST(Sampler, TemperatureSharpens) {
  Sampler cold(3, 1e-3);
  const float logits[] = {1.f, 1.1f, 0.f};
  for (int i = 0; i < 100; ++i)
    EXPECT_EQ(*cold.sample(logits), 1);
  Sampler any(3, 1e-300);
  EXPECT_EQ(*any.sample(logits), 1);
}

TEST(Sampler, TakesInfinityAndRefusesNaN) {
  Sampler sampler;
  const float sure[] = {0.f, -None, 1.f}, bad[] = {0.f, NaN};
  EXPECT_EQ(*sampler.sample(sure), 1);
  EXPECT_EQ(sampler.sample(bad).status().code(), Code::PolicyFailed);
}

// Two networks in one: scores of what is given, and a value.
const Signature Scores{{TensorSpec::of<float>("x", {Dynamic, 3})},
                       {TensorSpec::of<float>("logits", {Dynamic, 3}),
                        TensorSpec::of<double>("value", {1}), TensorSpec::of<int64_t>("length")}};

void registerScores() {
  static const Status done = registerFunction("scores", [](const Uri &) -> Expected<FunctionModel> {
    const auto evaluate = [](FunctionCall &call) {
      const TensorView x = call.input(0);
      Expected<TensorView> out = call.resizeOutput(0, x.shape);
      if (!out)
        return out.status();
      std::copy_n(x.as<float>().data(), x.count, out->as<float>().data());
      call.out<double>("value")[0] = 0.5;
      return Status();
    };
    return FunctionModel{Scores, {{"k", "v"}}, [=] { return Function(evaluate); }};
  });
  ASSERT_TRUE(done) << done.toString();
}

TEST(Choose, GivesAnOutputMoreAndKeepsTheOthers) {
  registerScores();
  Model model = Model::open("function:scores?choose=argmax&choose_from=logits");
  ASSERT_TRUE(model) << model.status().toString();
  EXPECT_EQ(model.modelSignature()->toString(),
            "(x: float32[?, 3]) -> (action: int64[?], logits: float32[?, 3], value: float64[1], "
            "length: int64)");
  EXPECT_EQ(model.metadata("k"), "v");
  ASSERT_TRUE(model.bind(*model.modelSignature()));
  Runner runner = model.newRunner();
  for (const int64_t rows : {2, 1, 3}) {
    Expected<Span<float>> x = runner.resize<float>("x", {rows, 3});
    ASSERT_TRUE(x) << x.status().toString();
    for (int64_t row = 0; row < rows; ++row)
      for (int64_t k = 0; k < 3; ++k)
        (*x)[size_t(3 * row + k)] = k == row ? 2.f : 1.f;
    ASSERT_TRUE(runner.evaluate()) << runner.status().toString();
    const Span<const int64_t> action = runner.output<int64_t>("action");
    ASSERT_EQ(action.size(), size_t(rows));
    for (int64_t row = 0; row < rows; ++row)
      EXPECT_EQ(action[size_t(row)], row);
    EXPECT_EQ(runner.output<float>("logits").size(), size_t(3 * rows));
    EXPECT_EQ(runner.output<double>("value")[0], 0.5);
  }
  (*runner.resize<float>("x", {1, 3}))[1] = NaN;
  const Status failed = runner.evaluate();
  EXPECT_EQ(failed.code(), Code::PolicyFailed);
  EXPECT_NE(failed.message().find("'logits'"), std::string::npos) << failed.message();
}

TEST(Choose, LetsAPassAskForAnActionOnly) {
  registerScores();
  const Signature pass{{TensorSpec::of<float>("x", {3})}, {TensorSpec::of<int64_t>("inline")}};
  const std::string options = "&choose_from=logits&choose_as=inline";
  Runner runner = open("function:scores?choose=argmax" + options, pass);
  ASSERT_TRUE(runner.set("x", {0.f, 1.f, 5.f})) << runner.status().toString();
  EXPECT_EQ(runner.evaluateOr<int64_t>([] { return -1; }), 2) << runner.status().toString();

  const std::string sampling = "function:scores?choose=sample&seed=5&temperature=2" + options;
  Runner first = open(sampling, pass), second = open(sampling, pass);
  int different = 0;
  for (int i = 0; i < 200; ++i) {
    const int64_t drawn = first.evaluate<int64_t>().valueOr(-1);
    EXPECT_EQ(drawn, second.evaluate<int64_t>().valueOr(-2));
    different += drawn != 0;
  }
  EXPECT_GT(different, 50);
  // Another module, another sequence; the same one, the same.
  const auto draws = [](Runner &of, const char *module) {
    EXPECT_TRUE(of.beginEpisode("e", module));
    std::string all;
    for (int i = 0; i < 32; ++i)
      all += std::to_string(of.evaluate<int64_t>().valueOr(-1));
    return all;
  };
  EXPECT_EQ(draws(first, "a.c"), draws(second, "a.c"));
  EXPECT_NE(draws(first, "a.c"), draws(second, "b.c"));
}

template <typename T> class MaskOf : public ::testing::Test {};
using MaskTypes = ::testing::Types<bool, int8_t, uint8_t, int16_t, uint16_t, int32_t, uint32_t,
                                   int64_t, uint64_t, Half, float, double>;
TYPED_TEST_SUITE(MaskOf, MaskTypes);

TYPED_TEST(MaskOf, AnyTypeOfThePassKeepsAnActionFromBeingChosen) {
  registerScores();
  const auto mask = [](bool a, bool b, bool c) {
    const auto of = [](bool may) {
      if constexpr (std::is_same_v<TypeParam, Half>)
        return may ? toHalf(0.5F) : Half{0x8000}; // minus zero
      else
        return static_cast<TypeParam>(may);
    };
    return std::vector<TypeParam>{of(a), of(b), of(c)};
  };
  const Signature pass{{TensorSpec::of<float>("x", {3}), TensorSpec::of<TypeParam>("may", {3})},
                       {TensorSpec::of<int64_t>("action")}};
  for (const char *how : {"argmax", "sample&temperature=100"}) {
    Runner runner =
        open(std::string("function:scores?choose_from=logits&mask=may&choose=") + how, pass);
    ASSERT_TRUE(runner.set("x", {1.f, NaN, 9.f})) << runner.status().toString();
    for (int i = 0; i < 50; ++i) {
      ASSERT_TRUE(runner.set("may", mask(true, false, false)));
      EXPECT_EQ(runner.evaluate<int64_t>().valueOr(-1), 0) << runner.status().toString();
      ASSERT_TRUE(runner.set("may", mask(false, false, true)));
      EXPECT_EQ(runner.evaluate<int64_t>().valueOr(-1), 2);
    }
    ASSERT_TRUE(runner.set("may", mask(false, false, false)));
    const Status none = runner.evaluate();
    EXPECT_EQ(none.code(), Code::PolicyFailed);
    EXPECT_NE(none.message().find("of which input 'may' allows none"), std::string::npos)
        << none.toString();
    ASSERT_TRUE(runner.set("may", mask(true, true, true)));
    EXPECT_EQ(runner.evaluate().code(), Code::PolicyFailed) << "NaN may be chosen";
  }
}

TEST(ChooseMask, DoesNotChangeTheDrawsOfWhatIsAllowed) {
  registerScores();
  const std::string uri = "function:scores?choose=sample&choose_from=logits&seed=5";
  Runner plain =
      open(uri, {{TensorSpec::of<float>("x", {3})}, {TensorSpec::of<int64_t>("action")}});
  Runner masked =
      open(uri + "&mask=may", {{TensorSpec::of<float>("x", {3}), TensorSpec::of<bool>("may", {3})},
                               {TensorSpec::of<int64_t>("action")}});
  ASSERT_TRUE(masked.set("may", {true, true, true})) << masked.status().toString();
  for (int i = 0; i < 100; ++i)
    EXPECT_EQ(plain.evaluate<int64_t>().valueOr(-1), masked.evaluate<int64_t>().valueOr(-2));
}

TEST(ChooseMask, HasARowForEachOfTheLogitsOrOneForAll) {
  registerScores();
  const std::string uri = "function:scores?choose=argmax&choose_from=logits&mask=may";
  Model model = Model::open(uri);
  ASSERT_TRUE(model) << model.status().toString();
  EXPECT_EQ(model.modelSignature()->inputs[1].toString(), "may: bool[?, 3]");
  ASSERT_TRUE(model.bind(*model.modelSignature()));
  Runner runner = model.newRunner();
  std::fill_n(runner.resize<float>("x", {2, 3})->begin(), 6, 1.f);
  const bool each[] = {false, true, false, false, false, true};
  std::copy(std::begin(each), std::end(each), runner.resize<bool>("may", {2, 3})->begin());
  ASSERT_TRUE(runner.evaluate()) << runner.status().toString();
  EXPECT_EQ(runner.output<int64_t>("action")[0], 1);
  EXPECT_EQ(runner.output<int64_t>("action")[1], 2);
  std::fill_n(runner.resize<float>("x", {3, 3})->begin(), 9, 1.f);
  EXPECT_EQ(runner.evaluate().code(), Code::PolicyFailed) << "a mask of two rows";
  Signature one = *model.modelSignature();
  one.inputs[1].shape = {3};
  ASSERT_TRUE(model.bind(one));
  Runner other = model.newRunner();
  std::fill_n(other.resize<float>("x", {2, 3})->begin(), 6, 1.f);
  ASSERT_TRUE(other.set("may", {false, false, true}));
  ASSERT_TRUE(other.evaluate()) << other.status().toString();
  EXPECT_EQ(other.output<int64_t>("action")[0], 2);
  EXPECT_EQ(other.output<int64_t>("action")[1], 2);
}

TEST(ChooseMask, MayBeAnInputOfTheModel) {
  static const Signature Masked{
      {TensorSpec::of<float>("x", {1, 3}), TensorSpec::of<float>("may", {1, 3}),
       TensorSpec::of<float>("few", {1, 2}), TensorSpec::of<std::string>("text", {1, 3})},
      {TensorSpec::of<float>("logits", {1, 3})}};
  ASSERT_TRUE(registerFunction("masked", [](const Uri &) -> Expected<FunctionModel> {
    return FunctionModel{Masked, {}, [] {
                           return Function([](FunctionCall &call) {
                             std::copy_n(call.input(0).as<float>().data(), 3,
                                         call.out<float>("logits").data());
                             return call.input(1).as<float>()[2] == 0.5F
                                        ? Status()
                                        : Status(Code::Internal, "the model sees its mask");
                           });
                         }};
  }));
  Model model = Model::open("function:masked?choose=argmax&mask=may");
  EXPECT_EQ(model.modelSignature()->inputs, Masked.inputs);
  Signature pass{{TensorSpec::of<float>("x", {3}), TensorSpec::of<float>("may", {3}),
                  TensorSpec::of<float>("few", {2}), TensorSpec::of<std::string>("text", {3})},
                 {TensorSpec::of<int64_t>("action")}};
  ASSERT_TRUE(model.bind(pass));
  Runner runner = model.newRunner();
  ASSERT_TRUE(runner.set("x", {3.f, 2.f, 1.f}));
  ASSERT_TRUE(runner.set("may", {0.f, 0.f, 0.5f}));
  EXPECT_EQ(runner.evaluate<int64_t>().valueOr(-1), 2) << runner.status().toString();
  for (const char *wrong : {"few", "text"}) {
    Runner refused = open(std::string("function:masked?choose=argmax&mask=") + wrong, pass);
    EXPECT_EQ(refused.status().code(), Code::Mismatch) << refused.status().toString();
    EXPECT_NE(refused.status().message().find("option mask: input '" + std::string(wrong)),
              std::string::npos)
        << refused.status().toString();
  }
}

TEST(ChooseMask, IsHeldToTheLogitsWhenThePassIsBound) {
  registerScores();
  const auto bound = [](std::vector<TensorSpec> inputs) {
    inputs.insert(inputs.begin(), TensorSpec::of<float>("x", {3}));
    return open("function:scores?choose=argmax&choose_from=logits&mask=may",
                Signature{std::move(inputs), {TensorSpec::of<int64_t>("action")}})
        .status();
  };
  for (const TensorSpec &wrong :
       {TensorSpec::of<bool>("may", {4}), TensorSpec::of<bool>("may"),
        TensorSpec::of<std::string>("may", {3}), TensorSpec::of<bool>("may", {2, 2, 3})}) {
    const Status status = bound({wrong});
    EXPECT_EQ(status.code(), Code::Mismatch) << wrong.toString();
    EXPECT_NE(status.message().find(wrong.toString()), std::string::npos) << status.toString();
  }
  EXPECT_EQ(bound({}).code(), Code::Mismatch);
  EXPECT_NE(bound({TensorSpec::of<bool>("mai", {3})}).message().find("did you mean 'mai'"),
            std::string::npos);
}

TEST(Choose, ActsForEachAgentOfAServer) {
  mlbridge::testing::TemporaryFolder folder;
  ServerOptions options;
  options.agents = {
      {"small", {{TensorSpec::of<float>("x", {2})}, {TensorSpec::of<float>("logits", {2})}}},
      {"large",
       {{TensorSpec::of<float>("x", {4})},
        {TensorSpec::of<double>("value"), TensorSpec::of<double>("scores", {4})}}},
      {"plain", {{TensorSpec::of<float>("x", {4})}, {TensorSpec::of<int64_t>("which")}}}};
  mlbridge::testing::ServerThread server("unix:" + folder / "s", options, [](Event &event) {
    const Span<float> x = event.input(0).as<float>();
    if (event.context().agent == "small")
      std::copy(x.begin(), x.end(), event.output(0).as<float>().begin());
    else
      std::copy(x.begin(), x.end(), event.output(1).as<double>().begin());
    EXPECT_TRUE(event.reply());
  });
  const std::string uri = "unix:" + folder / "s" + "?choose=argmax&mask=may";
  Model model = Model::open(uri);
  ASSERT_TRUE(model) << model.status().toString();
  const Signature small{{TensorSpec::of<float>("x", {2}), TensorSpec::of<bool>("may", {2})},
                        {TensorSpec::of<int64_t>("action")}};
  const Signature large{{TensorSpec::of<float>("x", {4}), TensorSpec::of<int32_t>("may", {4})},
                        {TensorSpec::of<int64_t>("action")}};
  Runner one = model.boundTo(small, "small").newRunner();
  Runner other = open(uri + "&agent=large&choose_from=scores", large);
  for (int i = 0; i < 2; ++i) {
    ASSERT_TRUE(one.set("x", {1.f, 5.f})) << one.status().toString();
    ASSERT_TRUE(one.set("may", {true, i == 0}));
    EXPECT_EQ(one.evaluate<int64_t>().valueOr(-1), i == 0 ? 1 : 0) << one.status().toString();
    ASSERT_TRUE(other.set("x", {1.f, 5.f, 7.f, 9.f})) << other.status().toString();
    ASSERT_TRUE(other.set("may", {1, 1, i, 0}));
    EXPECT_EQ(other.evaluate<int64_t>().valueOr(-1), 1 + i) << other.status().toString();
  }
  EXPECT_EQ(open(uri + "&agent=large", small).status().code(), Code::Mismatch);
  const Status unknown = open(uri + "&agent=smal", small).status();
  EXPECT_EQ(unknown.code(), Code::NotFound);
  EXPECT_NE(unknown.message().find("did you mean 'small'"), std::string::npos);
  EXPECT_EQ(open(uri, small).status().code(), Code::NotFound) << "no agent was named";
  const Status none = open(uri + "&agent=plain", small).status();
  EXPECT_EQ(none.code(), Code::InvalidArgument);
  EXPECT_NE(none.message().find("no output of floating-point"), std::string::npos);
}

TEST(Choose, NeedsASignatureToChooseFrom) {
  mlbridge::testing::TemporaryFolder folder;
  mlbridge::testing::ServerThread server("unix:" + folder / "s", {}, [](Event &) {});
  EXPECT_EQ(Model::open("unix:" + folder / "s" + "?choose=argmax").status().code(),
            Code::Unsupported);
}

struct Wrong {
  const char *options;
  const char *says;
};
class WrongChoice : public ::testing::TestWithParam<Wrong> {};
TEST_P(WrongChoice, IsAnErrorThatNamesTheOption) {
  registerScores();
  const Model model = Model::open(std::string("function:scores?") + GetParam().options);
  EXPECT_EQ(model.status().code(), Code::InvalidArgument) << GetParam().options;
  EXPECT_NE(model.status().message().find(GetParam().says), std::string::npos)
      << model.status().message();
}
INSTANTIATE_TEST_SUITE_P(
    All, WrongChoice,
    ::testing::Values(Wrong{"choose=max", "argmax or sample, not 'max'"},
                      Wrong{"choose=argmax", "several outputs"},
                      Wrong{"choose=argmax&choose_from=logit", "did you mean 'logits'"},
                      Wrong{"choose=argmax&choose_from=length", "no output 'length'"},
                      Wrong{"choose=argmax&choose_from=logits&choose_as=value", "already"},
                      Wrong{"choose=argmax&choose_as=", "choose_as"},
                      Wrong{"choose=argmax&mask=", "option mask"},
                      Wrong{"choose=argmax&seed=1", "option seed is for choose=sample"},
                      Wrong{"choose=sample&seed=-1", "option seed"},
                      Wrong{"choose=sample&temperature=0", "above 0, not '0'"},
                      Wrong{"choose=sample&temperature=inf", "above 0"}));

} // namespace
