// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// `?reload`, over a scheme whose models are files with a number in them: what each evaluation adds.
#include <mlbridge/function.h>

#include <gtest/gtest.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <thread>

using namespace mlbridge;

namespace {

// Files: "NUMBER [SUFFIX-OF-THE-OUTPUT'S-NAME [METADATA-VALUE]]".
void registerNumbers() {
  static const Status done =
      registerScheme("number", [](const Uri &uri) -> Expected<FunctionModel> {
        std::ifstream file(uri.place);
        float number = 0;
        std::string suffix, meaning = "a", training = "first";
        if (!(file >> number))
          return Status(Code::InvalidModel, uri.place + " has no number");
        file >> suffix >> meaning >> training;
        if (suffix == "-")
          suffix.clear();
        const auto evaluate = [number](FunctionCall &call) {
          float sum = number;
          for (const float x : call.in<float>("x"))
            sum += x;
          for (const float w : call.in<float>("w"))
            sum += w;
          sum += static_cast<float>(call.in<std::string>("name")[0].size());
          call.out<float>(call.signature().outputs[0].name)[0] = sum;
          return Status();
        };
        return FunctionModel{
            Signature{{TensorSpec::of<float>("x", {2}), TensorSpec::of<float>("w", {Dynamic}),
                       TensorSpec::of<std::string>("name")},
                      {TensorSpec::of<float>("y" + suffix)}},
            {{"meaning", meaning}, {"mlbridge.training", training}},
            [=] { return Function(evaluate); }};
      });
  ASSERT_TRUE(done) << done.toString();
}

class Reload : public testing::Test {
protected:
  void SetUp() override {
    registerNumbers();
    std::string pattern =
        (std::filesystem::temp_directory_path() / "mlbridge-reload-XXXXXX").string();
    folder_ = ::mkdtemp(pattern.data());
    path = folder_ + "/model";
    replace("1");
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  /// Replaces the file as a trainer should: atomically.
  void replace(const std::string &text) const {
    std::ofstream(path + ".new") << text;
    ASSERT_EQ(std::rename((path + ".new").c_str(), path.c_str()), 0);
  }
  Model opened(const std::string &options) const {
    Model model = Model::open("number:" + path + options);
    EXPECT_TRUE(model) << model.status().toString();
    const Status bound = model.bind(signature);
    EXPECT_TRUE(bound) << bound.toString();
    return model;
  }
  static std::string statistic(const Model &model, const std::string &key) {
    const Expected<Metadata> all = model.statistics();
    EXPECT_TRUE(all) << all.status().toString();
    return all && all->count(key) ? all->at(key) : "";
  }

  const Signature signature{{TensorSpec::of<float>("x", {2}), TensorSpec::of<float>("w", {Dynamic}),
                             TensorSpec::of<std::string>("name")},
                            {TensorSpec::of<float>("y")}};
  std::string folder_, path;
};

TEST_F(Reload, ANewFileIsTakenBetweenTwoCallsAndInputsStay) {
  const Model model = opened("?reload=0");
  Runner runner = model.newRunner();
  const Span<float> x = runner.input<float>("x");
  x[0] = 10;
  x[1] = 20;
  ASSERT_TRUE(runner.set("w", {100.f, 200.f, 300.f}));
  ASSERT_TRUE(runner.set("name", "abc"));
  EXPECT_EQ(runner.evaluate<float>().valueOr(-1.f), 634.f) << runner.status().toString();
  replace("2");
  EXPECT_EQ(runner.evaluate<float>().valueOr(-1.f), 635.f) << runner.status().toString();
  x[1] = 0; // the buffer is the one that was handed out
  EXPECT_EQ(runner.evaluate<float>().valueOr(-1.f), 615.f);
  (*runner.resize<float>("w", {1}))[0] = 0;
  replace("1000");
  EXPECT_EQ(runner.evaluate<float>().valueOr(-1.f), 1013.f);
  EXPECT_EQ(statistic(model, "reload.loaded"), "2");
  EXPECT_EQ(statistic(model, "reload.failed"), "0");
  EXPECT_EQ(statistic(model, "reload.error"), "");
}

TEST_F(Reload, WithoutItAFileIsReadOnce) {
  const Model model = opened("");
  Runner runner = model.newRunner();
  (void)runner.set("w", {0.f});
  replace("2");
  EXPECT_EQ(runner.evaluate<float>().valueOr(-1.f), 1.f) << runner.status().toString();
  EXPECT_EQ(model.statistics().status().code(), Code::Unsupported);
}

TEST_F(Reload, AnIntervalIsWaitedFor) {
  const Model model = opened("?reload=1h");
  Runner runner = model.newRunner();
  (void)runner.set("w", {0.f});
  replace("2");
  EXPECT_EQ(runner.evaluate<float>().valueOr(-1.f), 1.f);
  EXPECT_EQ(statistic(model, "reload.loaded"), "0");
}

TEST_F(Reload, AFileThatCannotBeUsedLeavesTheOldModelAndIsToldOnce) {
  const Model model = opened("?reload=0");
  Runner runner = model.newRunner();
  (void)runner.set("w", {0.f});
  const struct {
    const char *text, *says;
  } bad[] = {{"broken", "no number"},
             {"2 z", "another signature: (x: float32[2]"},
             {"3 - b", "metadata property 'meaning'"}};
  int failures = 0;
  for (const auto &[text, says] : bad) {
    replace(text);
    ++failures;
    for (int i = 0; i < 3; ++i)
      EXPECT_EQ(runner.evaluate<float>().valueOr(-1.f), 1.f) << runner.status().toString();
    EXPECT_EQ(statistic(model, "reload.failed"), std::to_string(failures));
    EXPECT_NE(statistic(model, "reload.error").find(says), std::string::npos)
        << statistic(model, "reload.error");
  }
  std::filesystem::remove(path);
  EXPECT_EQ(runner.evaluate<float>().valueOr(-1.f), 1.f);
  // The origin of the model may change.
  replace("4 - a second");
  EXPECT_EQ(runner.evaluate<float>().valueOr(-1.f), 4.f);
  EXPECT_EQ(statistic(model, "reload.error"), "");
  EXPECT_EQ(statistic(model, "reload.loaded"), "1");
}

TEST_F(Reload, RunnersOfOtherThreadsChangeOverBetweenCalls) {
  const Model model = opened("?reload=0");
  constexpr int Threads = 4, Versions = 50;
  std::atomic<int> newest{1}, ready{0};
  std::vector<int> wrong(Threads);
  std::vector<std::thread> threads;
  threads.reserve(Threads);
  for (int t = 0; t < Threads; ++t)
    threads.emplace_back([&, t] {
      Runner runner = model.newRunner();
      (void)runner.set("w", std::vector<float>(size_t(t + 1)));
      float before = 0;
      ++ready;
      while (before < static_cast<float>(Versions)) {
        const float now = runner.evaluate<float>().valueOr(-1.f);
        const bool right = now >= before && now <= static_cast<float>(newest.load());
        wrong[size_t(t)] += !right;
        if (!right)
          break;
        before = now;
      }
    });
  while (ready < Threads)
    std::this_thread::yield();
  for (int version = 2; version <= Versions; ++version) {
    newest = version;
    replace(std::to_string(version));
  }
  for (std::thread &thread : threads)
    thread.join();
  EXPECT_EQ(wrong, std::vector<int>(Threads, 0));
  EXPECT_EQ(statistic(model, "reload.failed"), "0");
}

TEST_F(Reload, WorksTogetherWithAChoice) {
  const Status status = Model::open("number:" + path + "?reload=0&choose=argmax").status();
  EXPECT_NE(status.message().find("to choose from"), std::string::npos) << status.toString();
}

TEST_F(Reload, NeedsAFile) {
  EXPECT_EQ(Model::open("number:" + path + "?reload=soon").status().code(), Code::InvalidArgument);
  EXPECT_EQ(Model::open("number:/nowhere?reload=0").status().code(), Code::InvalidModel);
  EXPECT_NE(Model::open("unix:/nowhere?reload=0").status().code(), Code::Ok);
}

} // namespace
