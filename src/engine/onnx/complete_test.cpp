// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Features of the onnx engine besides numbers in .onnx files: strings, ONNX Runtime's own format,
// operators from libraries, and its options.
#include "test_models.h"

#include <mlbridge/model.h>

#include <gtest/gtest.h>

#include <cstring>
#include <thread>

namespace mlbridge {
namespace {

using onnx::golden;
using onnx::goldenFile;

std::vector<std::string> strings(Runner &runner, const std::string &name) {
  const Span<const std::string> out = runner.output<std::string>(name);
  return {out.begin(), out.end()};
}

Runner newRunner(const std::string &uri) {
  Model model = Model::open(uri);
  const Status bound = model ? model.bind(*model.modelSignature()) : model.status();
  EXPECT_TRUE(bound) << bound.toString();
  return model.newRunner();
}

TEST(OnnxStrings, PassInAndOutWithWhateverIsInThem) {
  Runner runner = newRunner(golden("words"));
  ASSERT_TRUE(runner) << runner.status().toString();
  const std::string zero("a\0b", 3);
  const std::string large(100000, 'x');
  using Words = std::vector<std::string>;
  for (const Words &many : {Words{"one"}, Words{"", zero, large}, Words{}, Words{"ü"}}) {
    ASSERT_TRUE(runner.set("many", many)) << runner.status().toString();
    ASSERT_TRUE(runner.set("pair", Words{zero, "two"}));
    ASSERT_TRUE(runner.set("word", "alone"));
    ASSERT_TRUE(runner.evaluate()) << runner.status().toString();
    Words all = many;
    all.push_back(zero);
    all.emplace_back("two");
    EXPECT_EQ(strings(runner, "all"), all);
    EXPECT_EQ(strings(runner, "same"), (Words{zero, "two"}));
    EXPECT_EQ(strings(runner, "alone"), (Words{"alone"}));
    EXPECT_EQ(runner.output<int64_t>("count")[0], int64_t(all.size()));
  }
}

TEST(OnnxStrings, AreEmptyUntilTheyAreSet) {
  Runner runner = newRunner(golden("strings"));
  ASSERT_TRUE(runner.evaluate()) << runner.status().toString();
  EXPECT_EQ(strings(runner, "text_out"), std::vector<std::string>{""});
}

TEST(OnnxStrings, OfManyThreads) {
  Model model = Model::open(golden("words"));
  ASSERT_TRUE(model.bind(*model.modelSignature()));
  std::vector<int> correct(4);
  std::vector<std::thread> threads;
  threads.reserve(4);
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&model, &correct, t] {
      Runner runner = model.newRunner();
      for (int i = 0; i < 200; ++i) {
        const std::string own = std::to_string(t) + "/" + std::to_string(i);
        (void)runner.set("many", std::vector<std::string>(size_t(i % 4), own));
        (void)runner.set("pair", std::vector<std::string>{own, own});
        (void)runner.set("word", own);
        correct[size_t(t)] +=
            runner.evaluate() && strings(runner, "alone")[0] == own &&
            strings(runner, "all") == std::vector<std::string>(size_t(i % 4) + 2, own);
      }
    });
  for (std::thread &thread : threads)
    thread.join();
  EXPECT_EQ(correct, std::vector<int>(4, 200));
}

template <typename T> void expectScalar(Runner &runner, const std::string &name, T value) {
  ASSERT_TRUE(runner.set(name, value)) << runner.status().toString();
  ASSERT_TRUE(runner.evaluate()) << runner.status().toString();
  const Span<const T> out = runner.output<T>(name + "_out");
  ASSERT_EQ(out.size(), 1u) << name;
  // NOLINTNEXTLINE(bugprone-suspicious-memory-comparison): the bits count
  EXPECT_EQ(std::memcmp(&out[0], &value, sizeof value), 0) << name;
}

TEST(Onnx, PassesScalarsOfEveryType) {
  Runner runner = newRunner(golden("scalars"));
  ASSERT_TRUE(runner) << runner.status().toString();
  expectScalar<int8_t>(runner, "int8", -128);
  expectScalar<int16_t>(runner, "int16", INT16_MIN);
  expectScalar<int32_t>(runner, "int32", INT32_MIN);
  expectScalar<int64_t>(runner, "int64", INT64_MIN);
  expectScalar<uint8_t>(runner, "uint8", UINT8_MAX);
  expectScalar<uint16_t>(runner, "uint16", UINT16_MAX);
  expectScalar<uint32_t>(runner, "uint32", UINT32_MAX);
  expectScalar<uint64_t>(runner, "uint64", UINT64_MAX);
  expectScalar<Half>(runner, "float16", Half{0x3c01});
  expectScalar<float>(runner, "float", -0.f);
  expectScalar<double>(runner, "double", 0x1p-1074);
  expectScalar<bool>(runner, "bool", true);
}

TEST(Onnx, OpensOnnxRuntimesOwnFormat) {
  const Signature signature{{TensorSpec::of<float>("x", {1, 4})},
                            {TensorSpec::of<float>("y", {1, 1})}};
  Runner runner = open("onnx:" + goldenFile("linear.ort"), signature);
  ASSERT_TRUE(runner) << runner.status().toString();
  ASSERT_TRUE(runner.set("x", {1.f, 10.f, 100.f, 1000.f}));
  EXPECT_EQ(runner.evaluate<float>().valueOr(-1.f), 4321.5f);
}

TEST(Onnx, NoPrefixOfAFileInOnnxRuntimesFormatIsTakenForIt) {
  const onnx::ScratchFolder folder;
  const std::string path = folder.path() + "/cut.ort";
  const std::string whole = onnx::readFileText(goldenFile("linear.ort"));
  ASSERT_GT(whole.size(), 100u);
  for (size_t size = 1; size + 16 < whole.size(); size += 7) { // it ends with padding
    onnx::writeFile(path, whole.substr(0, size));
    const Model model = Model::open("onnx:" + path);
    EXPECT_EQ(model.status().code(), Code::InvalidModel) << size;
  }
}

TEST(OnnxCustomOperators, ComeFromTheLibrariesThatTheUriNames) {
  const Signature signature{{TensorSpec::of<float>("x", {3, 2})},
                            {TensorSpec::of<int32_t>("bucket", {3, 2})}};
  Runner runner =
      open(golden("bucketize") + "?custom_ops=" + testing::library("bucketize"), signature);
  ASSERT_TRUE(runner) << runner.status().toString();
  ASSERT_TRUE(runner.set("x", {-5.f, 10000.f, 150.f, 10.f, 5.f, 100.f}));
  ASSERT_TRUE(runner.evaluate()) << runner.status().toString();
  const Span<const int32_t> bucket = runner.output<int32_t>("bucket");
  EXPECT_EQ(std::vector<int32_t>(bucket.begin(), bucket.end()),
            (std::vector<int32_t>{0, 3, 3, 2, 1, 3}));
}

TEST(OnnxCustomOperators, ServeSeveralModelsOneAfterAnother) {
  const std::string uri = golden("bucketize") + "?custom_ops=" + testing::library("bucketize");
  for (int round = 0; round < 3; ++round) {
    const Model first = Model::open(uri), second = Model::open(uri);
    EXPECT_TRUE(first) << first.status().toString();
    EXPECT_TRUE(second) << second.status().toString();
  }
}

TEST(Onnx, TakesAFileThatReplacesItBetweenTwoCalls) {
  const onnx::ScratchFolder folder;
  const std::string path = folder.path() + "/policy.onnx";
  const auto replace = [&](const std::string &source) {
    onnx::writeFile(path + ".new", onnx::readFileText(goldenFile(source)));
    std::filesystem::rename(path + ".new", path);
  };
  replace("linear.onnx");
  Model model = Model::open("onnx:" + path + "?reload=0");
  ASSERT_TRUE(model.bind(*model.modelSignature())) << model.status().toString();
  Runner runner = model.newRunner();
  ASSERT_TRUE(runner.set("x", {1.f, 10.f, 100.f, 1000.f}));
  EXPECT_EQ(runner.evaluate<float>().valueOr(-1.f), 4321.5f) << runner.status().toString();
  replace("types.onnx");
  EXPECT_EQ(runner.evaluate<float>().valueOr(-1.f), 4321.5f) << runner.status().toString();
  Expected<Metadata> statistics = model.statistics();
  ASSERT_TRUE(statistics) << statistics.status().toString();
  EXPECT_EQ(statistics->at("reload.failed"), "1");
  replace("linear.ort");
  EXPECT_EQ(runner.evaluate<float>().valueOr(-1.f), 4321.5f) << runner.status().toString();
  statistics = model.statistics();
  EXPECT_EQ(statistics->at("reload.loaded"), "1") << statistics->at("reload.error");
}

TEST(Onnx, GivesTheIndexOfTheLargestLogitIfTheUriAsksForIt) {
  Runner runner = open(golden("log") + "?choose=argmax",
                       {{TensorSpec::of<float>("x", {3})}, {TensorSpec::of<int64_t>("action")}});
  ASSERT_TRUE(runner) << runner.status().toString();
  ASSERT_TRUE(runner.set("x", {0.f, 1.f, 3.f}));
  EXPECT_EQ(runner.evaluate<int64_t>().valueOr(-1), 2) << runner.status().toString();
}

TEST(Onnx, TakesEachOption) {
  for (const char *options :
       {"?threads=2&spin=1", "?spin=0", "?arena=0", "?arena=1&pattern=0", "?pattern=1",
        "?prepack=1", "?prepack=0&optimize=none", "?optimize=basic", "?optimize=extended",
        "?optimize=all", "?config.session.set_denormal_as_zero=1",
        "?deadline=1s&agent=a&episode=e&unit=c"}) {
    Runner runner = open(golden("linear") + options, {{TensorSpec::of<float>("x", {1, 4})},
                                                      {TensorSpec::of<float>("y", {1, 1})}});
    ASSERT_TRUE(runner) << options << ": " << runner.status().toString();
    (void)runner.set("x", {1.f, 0.f, 0.f, 0.f});
    EXPECT_EQ(runner.evaluate<float>().valueOr(-1.f), 1.5f) << options;
  }
}

} // namespace
} // namespace mlbridge
