// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// `?rename`, of models with and without a signature, with the other options, and of a server's.
#include "testing/server_thread.h"

#include <mlbridge/function.h>

#include <gtest/gtest.h>

#include <fstream>

namespace mlbridge {
namespace {

using namespace testing;

// A classifier as scikit-learn exports it.
const Signature Classifier{{TensorSpec::of<float>("X", {Dynamic, 2})},
                           {TensorSpec::of<int64_t>("label", {Dynamic}),
                            TensorSpec::of<float>("probabilities", {Dynamic, 2})}};

Status classify(FunctionCall &call) {
  const TensorView x = call.input(0);
  const int64_t rows[] = {x.shape[0]};
  Expected<TensorView> label = call.resizeOutput(0, rows);
  Expected<TensorView> probabilities = call.resizeOutput(1, x.shape);
  if (!label || !probabilities)
    return label ? probabilities.status() : label.status();
  for (size_t i = 0; i < label->count; ++i)
    label->as<int64_t>()[i] = x.as<float>()[2 * i] < x.as<float>()[2 * i + 1];
  std::copy_n(x.as<float>().data(), x.count, probabilities->as<float>().data());
  return Status();
}

/// By the names that it is asked with.
Status echo(FunctionCall &call) {
  call.out<float>("old out")[0] = call.in<float>("old:in")[0];
  return Status();
}

Status registerAll() {
  if (Status s = registerFunction("classifier",
                                  [](const Uri &) -> Expected<FunctionModel> {
                                    return FunctionModel{Classifier, {{"k", "v"}}, [] {
                                                           return Function(classify);
                                                         }};
                                  });
      !s)
    return s;
  if (Status s = registerFunction("echo",
                                  [](const Uri &) -> Expected<FunctionModel> {
                                    FunctionModel model;
                                    model.newFunction = [] { return Function(echo); };
                                    return model;
                                  });
      !s)
    return s;
  return registerScheme("classifier", [](const Uri &uri) -> Expected<FunctionModel> {
    Signature signature = Classifier;
    std::ifstream(uri.place) >> signature.outputs[0].name;
    return FunctionModel{signature, {}, [] { return Function(classify); }};
  });
}

class Rename : public ::testing::Test {
protected:
  void SetUp() override {
    static const Status done = registerAll();
    ASSERT_TRUE(done) << done.toString();
  }
};

const Signature Pass{{TensorSpec::of<float>("features", {2})}, {TensorSpec::of<int64_t>("action")}};

void expectAnswers(const std::string &uri) {
  Runner runner = open(uri, Pass);
  for (const int64_t want : {1, 0}) {
    ASSERT_TRUE(runner.set("features", {0.5F, want ? 2.F : 0.F})) << runner.status().toString();
    EXPECT_EQ(runner.evaluate<int64_t>().valueOr(-1), want) << runner.status().toString();
  }
}

TEST_F(Rename, GivesInputsAndOutputsOtherNames) {
  const std::string uri = "function:classifier?rename=features:X,action:label";
  Model model = Model::open(uri);
  ASSERT_TRUE(model) << model.status().toString();
  EXPECT_EQ(model.modelSignature()->toString(),
            "(features: float32[?, 2]) -> (action: int64[?], probabilities: float32[?, 2])");
  EXPECT_EQ(model.metadata("k"), "v");
  expectAnswers(uri);
}

TEST_F(Rename, MayExchangeNames) {
  Model model =
      Model::open("function:classifier?rename=label:probabilities,probabilities:label,label2:X");
  ASSERT_TRUE(model) << model.status().toString();
  EXPECT_EQ(model.modelSignature()->toString(),
            "(label2: float32[?, 2]) -> (probabilities: int64[?], label: float32[?, 2])");
}

TEST_F(Rename, WorksWithChoose) {
  expectAnswers(
      "function:classifier?rename=features:X,p:probabilities&choose=argmax&choose_from=p");
  // The choice is added to what the model has by then.
  const Model model = Model::open("function:classifier?rename=action:label&choose=argmax");
  EXPECT_NE(model.status().message().find("an output 'action' already"), std::string::npos)
      << model.status().message();
}

TEST_F(Rename, WorksWithReload) {
  const TemporaryFolder folder;
  const std::string path = folder / "model";
  std::ofstream(path) << "label";
  const std::string uri = "classifier:" + path + "?rename=features:X,action:label&reload=0";
  expectAnswers(uri);
  expectAnswers(uri + "&choose=sample&temperature=0.001&choose_as=drawn");
  Model model = Model::open(uri);
  ASSERT_TRUE(model.bind(Pass)) << model.status().toString();
  Runner runner = model.newRunner();
  ASSERT_TRUE(runner.set("features", {0.5F, 2.F}));
  EXPECT_TRUE(runner.evaluate());
  std::ofstream(path + ".new") << "verdict"; // which the file that was opened did not have
  ASSERT_EQ(std::rename((path + ".new").c_str(), path.c_str()), 0);
  EXPECT_EQ(runner.evaluate<int64_t>().valueOr(-1), 1) << runner.status().toString();
  EXPECT_EQ(model.statistics()->at("reload.failed"), "1");
}

class RenameOver : public Rename, public ::testing::WithParamInterface<const char *> {};
INSTANTIATE_TEST_SUITE_P(All, RenameOver, ::testing::Values("unix:", "shm:", "pipe:"));
TEST_P(RenameOver, OfAServersTensors) {
  const TemporaryFolder folder;
  const std::string address = GetParam() + folder / "s" + (GetParam()[0] == 'p' ? "/" : "");
  ServerOptions options;
  options.signature = Classifier;
  ServerThread server(address, options, [](Event &event) {
    if (event.kind() != EventKind::Request)
      return;
    const TensorView x = event.input(0);
    const int64_t rows[] = {x.shape[0]};
    ASSERT_TRUE(event.resizeOutput(1, x.shape));
    Expected<TensorView> label = event.resizeOutput(0, rows);
    ASSERT_TRUE(label);
    label->as<int64_t>()[0] = x.as<float>()[0] < x.as<float>()[1];
    std::copy_n(x.as<float>().data(), 2, event.output(1).as<float>().data());
    EXPECT_TRUE(event.reply());
  });
  expectAnswers(address + "?rename=features:X,action:label");
  expectAnswers(address +
                "?rename=features:X,p:probabilities&choose=argmax&choose_as=action&choose_from=p");
  // A caller that states no signature has the new names, too.
  Runner runner = open(address + "?rename=features:X");
  ASSERT_TRUE(runner.set("features", {0.5F, 2.F})) << runner.status().toString();
  ASSERT_TRUE(runner.evaluate()) << runner.status().toString();
  EXPECT_EQ(runner.output<int64_t>("label")[0], 1);
}

TEST_F(Rename, OfAServersAgents) {
  const TemporaryFolder folder;
  const std::string address = "unix:" + folder / "s";
  ServerOptions options;
  options.agents = {
      {"first", {{TensorSpec::of<float>("X")}, {TensorSpec::of<float>("y")}}},
      {"second", {{TensorSpec::of<float>("features")}, {TensorSpec::of<float>("z")}}}};
  ServerThread server(address, options, [](Event &event) {
    if (event.kind() != EventKind::Request)
      return;
    event.output(0).as<float>()[0] = event.input(0).as<float>()[0] * 2;
    EXPECT_TRUE(event.reply());
  });
  const Model both = Model::open(address + "?rename=features:X,action:y");
  ASSERT_TRUE(both) << both.status().toString();
  for (const auto &[agent, output] : {std::pair("first", "action"), std::pair("second", "z")}) {
    const Model model =
        both.boundTo({{TensorSpec::of<float>("features")}, {TensorSpec::of<float>(output)}}, agent);
    Runner runner = model.newRunner();
    ASSERT_TRUE(runner.set("features", 3.F)) << runner.status().toString();
    EXPECT_EQ(runner.evaluate<float>().valueOr(-1), 6.F) << runner.status().toString();
  }
  EXPECT_TRUE(Model::open(address + "?agent=first&rename=features:X"));
  const Model wrong = Model::open(address + "?agent=second&rename=features:X");
  EXPECT_NE(wrong.status().message().find("no input or output 'X'"), std::string::npos)
      << wrong.status().message();
}

TEST_F(Rename, OfAModelThatTakesAnySignature) {
  const Signature signature{{TensorSpec::of<float>("x")}, {TensorSpec::of<float>("y")}};
  Runner runner = open("function:echo?rename=x:old:in,y:old%20out", signature);
  ASSERT_TRUE(runner.set("x", 3.F)) << runner.status().toString();
  EXPECT_EQ(runner.evaluate<float>().valueOr(-1), 3.F) << runner.status().toString();
}

struct Wrong {
  const char *renames;
  const char *says;
};
class WrongRename : public Rename, public ::testing::WithParamInterface<Wrong> {};
TEST_P(WrongRename, IsAnErrorThatNamesTheOption) {
  const Model model = Model::open(std::string("function:classifier?rename=") + GetParam().renames);
  EXPECT_EQ(model.status().code(), Code::InvalidArgument) << GetParam().renames;
  EXPECT_NE(model.status().message().find("option rename: "), std::string::npos)
      << model.status().message();
  EXPECT_NE(model.status().message().find(GetParam().says), std::string::npos)
      << model.status().message();
}
INSTANTIATE_TEST_SUITE_P(
    All, WrongRename,
    ::testing::Values(
        Wrong{"", "expected NEW:OLD"}, Wrong{"X", "'X': expected NEW:OLD"},
        Wrong{":X", "expected NEW:OLD"}, Wrong{"x:", "expected NEW:OLD"},
        Wrong{"x:X,", "'': expected NEW:OLD"},
        Wrong{"x:lable", "no input or output 'lable'; did you mean 'label'?"},
        Wrong{"X:features", "it has (X: float32[?, 2]) -> (label: int64[?], probabilities"},
        Wrong{"probabilities:label", "outputs 0 and 1 are both called 'probabilities': (X: "},
        Wrong{"a:X,a:label", "'a:label': one of its names is already in 'a:X'"},
        Wrong{"a:X,b:X", "'b:X': one of its names is already in 'a:X'"}));

} // namespace
} // namespace mlbridge
