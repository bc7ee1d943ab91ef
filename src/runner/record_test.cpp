// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// `?record`, as far as C++ sees it; python/tests read the files.
#include <mlbridge/function.h>

#include <gtest/gtest.h>

#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <thread>

namespace mlbridge {
namespace {

namespace fs = std::filesystem;

const Signature Doubling{{TensorSpec::of<float>("x", {2})}, {TensorSpec::of<float>("y", {2})}};

class Record : public ::testing::Test {
protected:
  void SetUp() override {
    static const Status once =
        registerFunction("doubling", [](const Uri &) -> Expected<FunctionModel> {
          return FunctionModel{Doubling, {{"k", "\"v\"\n"}}, [] {
                                 return Function([](FunctionCall &call) {
                                   for (size_t i = 0; i < 2; ++i)
                                     call.out<float>("y")[i] = 2 * call.in<float>("x")[i];
                                   return call.in<float>("x")[0] < 0
                                              ? Status(Code::PolicyFailed, "negative")
                                              : Status();
                                 });
                               }};
        });
    ASSERT_TRUE(once);
    folder_ = fs::temp_directory_path() / ("record-" + std::to_string(getpid()));
    fs::create_directory(folder_);
  }
  void TearDown() override { fs::remove_all(folder_); }

  std::string uri() const { return "function:doubling?record=" + folder_.string(); }
  std::vector<std::string> files() const {
    std::vector<std::string> all;
    for (const auto &entry : fs::directory_iterator(folder_)) {
      std::ifstream file(entry.path(), std::ios::binary);
      all.emplace_back(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
    }
    return all;
  }
  static size_t count(const std::string &text, const std::string &part) {
    size_t n = 0;
    for (size_t at = 0; (at = text.find(part, at)) != text.npos; at += part.size())
      ++n;
    return n;
  }
  fs::path folder_;
};

TEST_F(Record, KeepsWhatSeveralThreadsAskInOneFile) {
  Model model = Model::open(uri());
  ASSERT_TRUE(model.bind(Doubling)) << model.status().toString();
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&model] {
      Runner runner = model.newRunner();
      for (int i = 0; i < 100; ++i) {
        ASSERT_TRUE(runner.set("x", {float(i), 1.0f}));
        ASSERT_TRUE(runner.evaluate());
        ASSERT_EQ(runner.output<float>("y")[0], 2.0f * float(i));
      }
    });
  for (std::thread &thread : threads)
    thread.join();
  ASSERT_EQ(files().size(), 1u);
  EXPECT_EQ(count(files()[0], "\"kind\": \"request\""), 400u);
  EXPECT_EQ(count(files()[0], "\"kind\": \"reply\""), 400u);
  EXPECT_EQ(count(files()[0], "\"kind\": \"stream\""), 4u);
}

TEST_F(Record, AProcessThatForksWritesTwoFiles) {
  Model model = Model::open(uri());
  ASSERT_TRUE(model.bind(Doubling));
  Runner runner = model.newRunner();
  ASSERT_TRUE(runner.evaluate());
  const pid_t child = fork();
  if (child == 0)
    _exit(runner.evaluate().ok() ? 0 : 1);
  int end = 0;
  ASSERT_EQ(waitpid(child, &end, 0), child);
  EXPECT_EQ(end, 0);
  ASSERT_TRUE(runner.evaluate());
  const std::vector<std::string> both = files();
  ASSERT_EQ(both.size(), 2u);
  EXPECT_EQ(count(both[0], "\"kind\": \"reply\"") + count(both[1], "\"kind\": \"reply\""), 3u);
  for (const std::string &one : both)
    EXPECT_EQ(count(one, "\"kind\": \"stream\""), 1u) << "what a request belongs to is in its file";
}

TEST_F(Record, AFolderThatIsMade) {
  folder_ /= "one/two";
  EXPECT_TRUE(Model::open(uri()).status());
  EXPECT_EQ(files().size(), 1u);
  folder_ = folder_.parent_path().parent_path();
}

TEST_F(Record, AFolderThatCannotBeMade) {
  const Model model = Model::open("function:doubling?record=/proc/nowhere/at/all");
  EXPECT_EQ(model.status().code(), Code::NotFound);
  EXPECT_NE(model.status().message().find("option record: /proc/nowhere/at/all/"),
            std::string::npos)
      << model.status().message();
}

TEST_F(Record, NoFolder) {
  EXPECT_EQ(Model::open("function:doubling?record=").status().code(), Code::InvalidArgument);
}

TEST_F(Record, AFullDiskEndsTheRecordingAndNotTheWork) {
  rlimit before{};
  getrlimit(RLIMIT_FSIZE, &before);
  signal(SIGXFSZ, SIG_IGN);
  Model model = Model::open(uri());
  ASSERT_TRUE(model.bind(Doubling));
  Runner runner = model.newRunner();
  EXPECT_EQ(model.statistics()->at("record.failed"), "");
  rlimit small = before;
  small.rlim_cur = 3000;
  setrlimit(RLIMIT_FSIZE, &small);
  for (int i = 0; i < 100; ++i)
    EXPECT_TRUE(runner.evaluate());
  setrlimit(RLIMIT_FSIZE, &before);
  signal(SIGXFSZ, SIG_DFL);
  ASSERT_EQ(files().size(), 1u);
  EXPECT_LE(files()[0].size(), 3000u);
  EXPECT_NE(model.statistics()->at("record.failed").find("File too large"), std::string::npos);
  EXPECT_GE(count(files()[0], "\"kind\": \"reply\""), 3u) << "what there was room for is whole";
}

} // namespace
} // namespace mlbridge
