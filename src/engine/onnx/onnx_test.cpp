// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The onnx engine through the public interface, on the files of tests/golden/onnx: values of every
// type and shape, and many threads. bad_model_test.cpp has what it has to refuse.
#include "test_models.h"

#include <mlbridge/model.h>

#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <thread>

namespace mlbridge {
namespace {

using onnx::golden;

TEST(Onnx, EvaluatesALinearModel) {
  const Signature signature{{TensorSpec::of<float>("x", {1, 4})},
                            {TensorSpec::of<float>("y", {1, 1})}};
  Runner runner = open(golden("linear"), signature);
  ASSERT_TRUE(runner) << runner.status().toString();
  ASSERT_TRUE(runner.set("x", {1.f, 10.f, 100.f, 1000.f}));
  Expected<float> y = runner.evaluate<float>();
  ASSERT_TRUE(y) << y.status().toString();
  EXPECT_EQ(*y, 4321.5f);
  // In place, and again.
  runner.input<float>("x")[3] = 0;
  EXPECT_EQ(runner.evaluate<float>().valueOr(-1.f), 321.5f);
}

TEST(Onnx, EvaluatesAModelFromMemory) {
  const Signature signature{{TensorSpec::of<float>("x", {1, 4})},
                            {TensorSpec::of<float>("y", {1, 1})}};
  for (const char *uri : {"onnx:linear?prepack=0", "native:linear", "onnx:", "native:"}) {
    std::string bytes = onnx::readFileText(onnx::goldenFile("linear.onnx"));
    Model model = Model::fromMemory(uri, bytes.data(), bytes.size());
    bytes.assign(bytes.size(), 'x'); // it was copied
    ASSERT_TRUE(model.bind(signature)) << model.status().toString();
    EXPECT_EQ(model.metadata("actions"), "a,b");
    Runner runner = model.newRunner();
    ASSERT_TRUE(runner.set("x", {1, 10, 100, 1000}));
    EXPECT_EQ(runner.evaluate<float>().valueOr(-1.f), 4321.5f) << uri;
  }
  const std::string external = onnx::readFileText(onnx::goldenFile("external-data.onnx"));
  ASSERT_FALSE(external.empty());
  for (const char *uri : {"onnx:some model", "native:some model"}) {
    const Status why = Model::fromMemory(uri, external.data(), external.size()).status();
    EXPECT_EQ(why.code(), Code::Unsupported) << why.toString();
    EXPECT_NE(why.message().find("some model"), std::string::npos);
    EXPECT_NE(why.message().find("opened from memory"), std::string::npos);
    EXPECT_EQ(Model::fromMemory(uri, "", 0).status().code(), Code::InvalidModel);
    EXPECT_EQ(Model::fromMemory(uri, external.data(), 40).status().code(), Code::InvalidModel);
  }
}

TEST(Onnx, TellsItsSignatureAndMetadata) {
  const Model model = Model::open(golden("linear"));
  ASSERT_TRUE(model) << model.status().toString();
  ASSERT_NE(model.modelSignature(), nullptr);
  EXPECT_EQ(model.modelSignature()->toString(), "(x: float32[1, 4]) -> (y: float32[1, 1])");
  EXPECT_EQ(model.metadata("actions"), "a,b");
  EXPECT_EQ(model.metadata("unit"), "µs");
  EXPECT_EQ(model.metadata("empty"), "");
  EXPECT_EQ(model.metadata("onnx.producer"), "tests/golden");
  EXPECT_EQ(model.metadata("onnx.graph"), "golden");
  EXPECT_EQ(model.metadata("onnx.description"), "A linear model");
  EXPECT_EQ(model.metadata("onnx.domain"), std::nullopt);
  EXPECT_TRUE(model.metadata("onnx.runtime").has_value());
}

TEST(Onnx, TakesAPassThatKnowsMoreAndAsksForLess) {
  const Signature signature{{TensorSpec::of<int64_t>("step"), TensorSpec::of<float>("unknown", {7}),
                             TensorSpec::of<float>("features", {3})},
                            {TensorSpec::of<int64_t>("action")}};
  Runner runner = open(golden("policy"), signature);
  ASSERT_TRUE(runner) << runner.status().toString();
  ASSERT_TRUE(runner.set("features", {0.25f, -4.f, 0.5f}));
  ASSERT_TRUE(runner.set("step", int64_t(1)));
  EXPECT_EQ(runner.evaluate<int64_t>().valueOr(-1), 2);
  ASSERT_TRUE(runner.set("step", int64_t(-1)));
  EXPECT_EQ(runner.evaluate<int64_t>().valueOr(-1), 1);
}

TEST(Onnx, GivesSeveralOutputsOfSeveralTypes) {
  Model model = Model::open(golden("policy"));
  ASSERT_TRUE(model) << model.status().toString();
  ASSERT_TRUE(model.bind(*model.modelSignature()));
  Runner runner = model.newRunner();
  ASSERT_TRUE(runner.set("features", {1.f, 2.f, 3.f}));
  ASSERT_TRUE(runner.set("step", int64_t(5)));
  ASSERT_TRUE(runner.evaluate());
  const Span<const float> logits = runner.output<float>("logits");
  ASSERT_EQ(logits.size(), 3u);
  EXPECT_EQ(logits[0], 5.f);
  EXPECT_EQ(logits[2], 15.f);
  ASSERT_EQ(runner.output<int64_t>("action").size(), 1u);
  EXPECT_EQ(runner.output<int64_t>("action")[0], 2);
}

template <typename T> void expectPassedThrough(Runner &runner, const std::string &name, T a, T b) {
  const Span<T> in = runner.input<T>(name);
  ASSERT_EQ(in.size(), 2u) << name << ": " << runner.status().toString();
  in[0] = a;
  in[1] = b;
  ASSERT_TRUE(runner.evaluate()) << runner.status().toString();
  const Span<const T> out = runner.output<T>(name + "_out");
  ASSERT_EQ(out.size(), 2u) << name;
  // NOLINTNEXTLINE(bugprone-suspicious-memory-comparison): the bits count, as in a NaN
  EXPECT_EQ(std::memcmp(in.data(), out.data(), 2 * sizeof(T)), 0) << name;
  EXPECT_NE(in.data(), out.data());
}

TEST(Onnx, PassesEveryElementTypeBitByBit) {
  Model model = Model::open(golden("types"));
  ASSERT_TRUE(model) << model.status().toString();
  ASSERT_TRUE(model.bind(*model.modelSignature()));
  Runner runner = model.newRunner();
  expectPassedThrough<int8_t>(runner, "int8", -128, 127);
  expectPassedThrough<int16_t>(runner, "int16", INT16_MIN, INT16_MAX);
  expectPassedThrough<int32_t>(runner, "int32", INT32_MIN, INT32_MAX);
  expectPassedThrough<int64_t>(runner, "int64", INT64_MIN, INT64_MAX);
  expectPassedThrough<uint8_t>(runner, "uint8", 0, UINT8_MAX);
  expectPassedThrough<uint16_t>(runner, "uint16", 1, UINT16_MAX);
  expectPassedThrough<uint32_t>(runner, "uint32", 1, UINT32_MAX);
  expectPassedThrough<uint64_t>(runner, "uint64", 1, UINT64_MAX);
  expectPassedThrough<Half>(runner, "float16", Half{0x7e01}, Half{0x8000});
  const uint32_t payload = 0x7fc01234; // a NaN with something in it
  float nan = 0;
  std::memcpy(&nan, &payload, sizeof nan);
  expectPassedThrough<float>(runner, "float", nan, -0.f);
  expectPassedThrough<double>(runner, "double", std::numeric_limits<double>::denorm_min(),
                              -std::numeric_limits<double>::infinity());
  expectPassedThrough<bool>(runner, "bool", true, false);
}

TEST(Onnx, LeavesNaNAndInfinitiesOfTheModelAsTheyAre) {
  Model model = Model::open(golden("log"));
  ASSERT_TRUE(model) << model.status().toString();
  ASSERT_TRUE(model.bind(*model.modelSignature()));
  Runner runner = model.newRunner();
  ASSERT_TRUE(runner.set("x", {-1.f, 0.f, 1.f}));
  ASSERT_TRUE(runner.evaluate());
  const Span<const float> y = runner.output<float>("y");
  EXPECT_TRUE(std::isnan(y[0]));
  EXPECT_EQ(y[1], -std::numeric_limits<float>::infinity());
  EXPECT_EQ(y[2], 0.f);
}

TEST(Onnx, ResizesDynamicInputs) {
  Model model = Model::open(golden("dynamic"));
  ASSERT_TRUE(model) << model.status().toString();
  EXPECT_EQ(model.modelSignature()->toString(),
            "(nodes: float32[?, 2]) -> (doubled: float32[?, 2], total: float32[2])");
  ASSERT_TRUE(model.bind(*model.modelSignature()));
  Runner runner = model.newRunner();
  ASSERT_TRUE(runner) << runner.status().toString();
  // Up, down, empty, and up beyond what it had.
  for (const int64_t rows : {3, 1, 0, 1000, 1000, 2}) {
    Expected<Span<float>> nodes = runner.resize<float>("nodes", {rows, 2});
    ASSERT_TRUE(nodes) << nodes.status().toString();
    ASSERT_EQ(nodes->size(), size_t(rows) * 2);
    for (size_t i = 0; i < nodes->size(); ++i)
      (*nodes)[i] = static_cast<float>(i);
    ASSERT_TRUE(runner.evaluate()) << runner.status().toString();
    const Span<const float> doubled = runner.output<float>("doubled");
    ASSERT_EQ(doubled.size(), size_t(rows) * 2);
    for (size_t i = 0; i < doubled.size(); ++i)
      ASSERT_EQ(doubled[i], 2 * static_cast<float>(i));
    EXPECT_EQ(runner.output<float>("total")[1], static_cast<float>(rows * rows));
  }
}

TEST(Onnx, AnInputThatWasNeverResizedIsAnError) {
  Model model = Model::open(golden("dynamic"));
  ASSERT_TRUE(model.bind(*model.modelSignature()));
  Runner runner = model.newRunner();
  const Status status = runner.evaluate();
  EXPECT_EQ(status.code(), Code::InvalidArgument);
  EXPECT_NE(status.message().find("nodes"), std::string::npos) << status.message();
  EXPECT_FALSE(runner.resize<float>("nodes", {4, 3}));
  ASSERT_TRUE(runner.resize<float>("nodes", {4, 2}));
  runner.clearStatus();
  EXPECT_TRUE(runner.evaluate()) << runner.status().toString();
}

TEST(Onnx, ResizesInputsOfAModelWithFixedOutputs) {
  Model model = Model::open(golden("pool"));
  ASSERT_TRUE(model) << model.status().toString();
  ASSERT_TRUE(model.bind(*model.modelSignature()));
  Runner runner = model.newRunner();
  EXPECT_EQ(runner.evaluate().code(), Code::InvalidArgument);
  runner.clearStatus();
  for (const int64_t rows : {2, 1, 500, 3}) {
    Expected<Span<float>> nodes = runner.resize<float>("nodes", {rows, 2});
    ASSERT_TRUE(nodes) << nodes.status().toString();
    for (float &element : *nodes)
      element = 0.5f;
    ASSERT_TRUE(runner.evaluate()) << runner.status().toString();
    EXPECT_EQ(runner.output<float>("total")[1], 0.5f * static_cast<float>(rows));
  }
}

TEST(Onnx, HoldsADynamicDimensionAtTheLengthThatThePassStates) {
  const Signature signature{{TensorSpec::of<float>("nodes", {2, 2})},
                            {TensorSpec::of<float>("total", {2})}};
  Runner runner = open(golden("dynamic"), signature);
  ASSERT_TRUE(runner) << runner.status().toString();
  ASSERT_TRUE(runner.set("nodes", {1.f, 2.f, 3.f, 4.f}));
  ASSERT_TRUE(runner.evaluate()) << runner.status().toString();
  EXPECT_EQ(runner.output<float>("total")[0], 4.f);
}

TEST(Onnx, GivesOutputsWhoseLengthDependsOnTheValues) {
  Model model = Model::open(golden("nonzero"));
  ASSERT_TRUE(model) << model.status().toString();
  ASSERT_TRUE(model.bind(*model.modelSignature()));
  Runner runner = model.newRunner();
  EXPECT_EQ(runner.output<int64_t>("where").size(), 0u);
  for (const size_t ones : {2, 0, 4, 1}) {
    const Span<float> x = runner.input<float>("x");
    for (size_t i = 0; i < 4; ++i)
      x[i] = i < ones ? 1.f : 0.f;
    ASSERT_TRUE(runner.evaluate()) << runner.status().toString();
    const Span<const int64_t> where = runner.output<int64_t>("where");
    ASSERT_EQ(where.size(), ones);
    for (size_t i = 0; i < ones; ++i)
      EXPECT_EQ(where[i], int64_t(i));
  }
}

TEST(Onnx, AFailedEvaluationIsAnErrorAndTheNextOneWorks) {
  Model model = Model::open(golden("gather"));
  ASSERT_TRUE(model.bind(*model.modelSignature()));
  Runner runner = model.newRunner();
  ASSERT_TRUE(runner.set("data", {5.f, 6.f, 7.f}));
  ASSERT_TRUE(runner.set("index", {int64_t(1) << 40}));
  ::testing::internal::CaptureStdout();
  ::testing::internal::CaptureStderr();
  const Expected<float> failed = runner.evaluate<float>();
  EXPECT_EQ(::testing::internal::GetCapturedStdout() + ::testing::internal::GetCapturedStderr(),
            "");
  EXPECT_EQ(failed.status().code(), Code::PolicyFailed);
  EXPECT_NE(failed.status().message().find("Gather"), std::string::npos)
      << failed.status().message();
  ASSERT_TRUE(runner.set("index", {int64_t(2)}));
  EXPECT_EQ(runner.evaluate<float>().valueOr(-1.f), 7.f);
}

TEST(Onnx, AnOutputOfAnotherShapeThanDeclaredIsAnError) {
  Model model = Model::open(golden("lies"));
  ASSERT_TRUE(model) << model.status().toString();
  ASSERT_TRUE(model.bind(*model.modelSignature()));
  Runner runner = model.newRunner();
  const auto evaluate = [&](int64_t fixedRows, int64_t openRows) {
    EXPECT_TRUE(runner.set("shape", {fixedRows, 4 / fixedRows}));
    EXPECT_TRUE(runner.set("other", {openRows, 4 / openRows}));
    return runner.evaluate().code();
  };
  EXPECT_EQ(evaluate(2, 2), Code::Ok);
  EXPECT_EQ(evaluate(4, 2), Code::PolicyFailed);
  EXPECT_EQ(evaluate(2, 4), Code::PolicyFailed);
  EXPECT_EQ(evaluate(2, 2), Code::Ok) << runner.status().toString();
}

TEST(Onnx, AFixedOutputOfAnotherShapeThanDeclaredIsAnErrorAndTheNextOneWorks) {
  Model model = Model::open(golden("lies-fixed"));
  ASSERT_TRUE(model) << model.status().toString();
  ASSERT_TRUE(model.bind(*model.modelSignature()));
  Runner runner = model.newRunner();
  ASSERT_TRUE(runner.set("x", {1.f, 2.f, 3.f, 4.f}));
  for (int round = 0; round < 2; ++round) {
    ASSERT_TRUE(runner.set("shape", {int64_t(4), int64_t(1)}));
    EXPECT_EQ(runner.evaluate().code(), Code::PolicyFailed);
    ASSERT_TRUE(runner.set("shape", {int64_t(2), int64_t(2)}));
    ASSERT_TRUE(runner.evaluate()) << runner.status().toString();
    EXPECT_EQ(runner.output<float>("fixed")[3], 4.f);
  }
}

TEST(Onnx, ReadsExternalDataFromTheModelsFolderAndFromNowhereElse) {
  const onnx::ScratchFolder folder;
  onnx::writeFile(folder.path() + "/external-data.bin", std::string(24, '\0'));
  const onnx::WorkingFolder elsewhere(folder.path());
  const Signature signature{{TensorSpec::of<float>("x", {1, 4})},
                            {TensorSpec::of<float>("y", {1, 1})}};
  Runner runner = open(golden("external-data"), signature);
  ASSERT_TRUE(runner) << runner.status().toString();
  ASSERT_TRUE(runner.set("x", {1.f, 10.f, 100.f, 1000.f}));
  EXPECT_EQ(runner.evaluate<float>().valueOr(-1.f), 4321.f);
}

TEST(Onnx, TakesItsOptions) {
  for (const char *options :
       {"?threads=2", "?prepack=1", "?prepack=0&optimize=none", "?optimize=basic",
        "?optimize=extended", "?optimize=all", "?deadline=1s&agent=a"}) {
    const Model model = Model::open(golden("linear") + options);
    EXPECT_TRUE(model) << options << ": " << model.status().toString();
  }
}

TEST(Onnx, EightThreadsShareOneModel) {
  Model model = Model::open(golden("policy"));
  ASSERT_TRUE(model.bind(*model.modelSignature()));
  std::vector<std::thread> threads;
  threads.reserve(8);
  std::vector<int> correct(8);
  for (int t = 0; t < 8; ++t)
    threads.emplace_back([&model, &correct, t] {
      Runner runner = model.newRunner();
      for (int i = 0; i < 500; ++i) {
        const int best = (t + i) % 3;
        const Span<float> features = runner.input<float>("features");
        for (int k = 0; k < 3; ++k)
          features[size_t(k)] = k == best ? static_cast<float>(t + 1) : 0.5f;
        *runner.input<int64_t>("step").data() = i + 1;
        if (runner.evaluate() && runner.output<int64_t>("action")[0] == best &&
            runner.output<float>("logits")[size_t(best)] == static_cast<float>((t + 1) * (i + 1)))
          ++correct[size_t(t)];
      }
    });
  for (std::thread &thread : threads)
    thread.join();
  EXPECT_EQ(correct, std::vector<int>(8, 500));
}

TEST(Onnx, ThreadsOpenModelsAtTheSameTime) {
  std::vector<std::thread> threads;
  threads.reserve(8);
  std::vector<float> answers(8);
  for (size_t t = 0; t < 8; ++t)
    threads.emplace_back([&answers, t] {
      Runner runner = open(golden("linear"), {{TensorSpec::of<float>("x", {1, 4})},
                                              {TensorSpec::of<float>("y", {1, 1})}});
      (void)runner.set("x", {1.f, 0.f, 0.f, 0.f});
      answers[t] = runner.evaluate<float>().valueOr(-1.f);
    });
  for (std::thread &thread : threads)
    thread.join();
  EXPECT_EQ(answers, std::vector<float>(8, 1.5f));
}

} // namespace
} // namespace mlbridge
