// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Whatever is in a file, the native engine opens it or refuses it with a message: it doesn't crash,
// hang or take memory without bound. The models are those of tests/golden/hostile.
#include "hostile_model.h"

#include "engine/native/compile/generate.h"
#include "engine/native/network.h"
#include "testing/built.h"
#include "testing/campaign.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <sys/resource.h>

namespace mlbridge::testing {
namespace {

const std::filesystem::path Folder = sourceFile("tests/golden/hostile");
const size_t Stride = campaign(1, 50); // of the bytes that are changed
constexpr Duration Patience = std::chrono::milliseconds(20);
constexpr unsigned Seconds = 60; // a model that takes longer hangs
[[maybe_unused]] constexpr long MostMegabytes = 1024;

std::vector<std::string> models(const std::string &prefix) {
  std::vector<std::string> found;
  for (const auto &entry : std::filesystem::directory_iterator(Folder))
    if (entry.path().extension() == ".onnx" && entry.path().stem().string().rfind(prefix, 0) == 0)
      found.push_back(entry.path().stem());
  std::sort(found.begin(), found.end());
  return found;
}

std::string contents(const std::string &name) {
  std::ifstream file(Folder / (name + ".onnx"), std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

std::string testName(const ::testing::TestParamInfo<std::string> &info) {
  std::string name = info.param;
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
}

/// Ends the program if a model hangs: there is nothing else to do about it.
class Patiently {
public:
  Patiently() { ::alarm(Seconds); }
  Patiently(const Patiently &) = delete;
  Patiently &operator=(const Patiently &) = delete;
  ~Patiently() { ::alarm(0); }
};

[[maybe_unused]] long megabytes() {
  rusage use{};
  ::getrusage(RUSAGE_SELF, &use);
  return use.ru_maxrss / 1024;
}

class Good : public ::testing::TestWithParam<std::string> {
protected:
  /// Opens and asks it; what it says has to be in order.
  void attempt(const std::string &bytes, const std::string &what) {
    ASSERT_TRUE(file_.write(bytes.data(), bytes.size()));
    const Patiently patiently;
    const Outcome outcome = tryModel(file_.path(), Patience);
    ++(outcome.isOpen ? opened_ : refused_);
    if (outcome.status)
      return;
    ASSERT_TRUE(isRefusal(outcome.status.code())) << what << ": " << outcome.status.toString();
    ASSERT_NE(outcome.status.message(), "") << what;
  }

  MemoryFile file_;
  int opened_ = 0, refused_ = 0;
};

TEST_P(Good, Works) {
  const Outcome outcome = tryModel(Folder / (GetParam() + ".onnx"), std::chrono::seconds(10));
  EXPECT_TRUE(outcome.status) << outcome.status.toString();
}

TEST_P(Good, CutAtEveryByte) {
  const std::string bytes = contents(GetParam());
  for (size_t length = 0; length < bytes.size() && !HasFatalFailure(); length += Stride)
    attempt(bytes.substr(0, length), "cut after " + std::to_string(length));
  EXPECT_GT(refused_, 0);
}

TEST_P(Good, EachByteReplaced) {
  const std::string bytes = contents(GetParam());
  for (size_t at = 0; at < bytes.size(); at += Stride)
    for (const int change : {0x00, 0x01, 0x7f, 0x80, 0xff, -1, -2, -128}) {
      std::string changed = bytes;
      changed[at] = static_cast<char>(change >= 0 ? change : bytes[at] ^ -change);
      if (changed == bytes)
        continue;
      attempt(changed, "byte " + std::to_string(at) + " changed by " + std::to_string(change));
      if (HasFatalFailure())
        return;
    }
  EXPECT_GT(refused_, 0);
}

TEST_P(Good, NumbersGrown) {
  // A byte that may be a length or a number becomes one of ten bytes.
  const std::string bytes = contents(GetParam());
  for (const char *grown : {"\xff\xff\xff\xff\xff\xff\xff\xff\x7f", "\x80\x80\x80\x80\x80\x80\x01",
                            "\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", "\xff\xff\xff\xff\x0f"})
    for (size_t at = 0; at < bytes.size() && !HasFatalFailure(); at += Stride)
      attempt(bytes.substr(0, at) + grown + bytes.substr(at + 1), "grown at " + std::to_string(at));
}

TEST_P(Good, ManyChanges) {
  const std::string bytes = contents(GetParam());
  std::mt19937 random(7);
  const size_t rounds = campaign(2000, 40);
  for (size_t round = 0; round < rounds && !HasFatalFailure(); ++round) {
    std::string changed = bytes;
    for (unsigned changes = 1 + random() % 6; changes; --changes) {
      const size_t at = random() % changed.size();
      switch (random() % 5) {
      case 0:
        changed.erase(at, random() % 8);
        break;
      case 1:
        changed.insert(at, changed.substr(random() % changed.size(), random() % 32));
        break;
      case 2:
        changed[at] = static_cast<char>(changed[at] + 1);
        break;
      default:
        changed[at] = static_cast<char>(random());
      }
      if (changed.empty())
        changed = bytes;
    }
    attempt(changed, "round " + std::to_string(round));
  }
}

INSTANTIATE_TEST_SUITE_P(Models, Good, ::testing::ValuesIn(models("good-")), testName);

class Bad : public ::testing::TestWithParam<std::string> {};

TEST_P(Bad, IsRefusedWithAMessage) {
  const Patiently patiently;
  const Outcome outcome = tryModel(Folder / (GetParam() + ".onnx"), Patience);
  EXPECT_FALSE(outcome.status) << "was evaluated";
  EXPECT_TRUE(isRefusal(outcome.status.code()) || outcome.status.code() == Code::NotFound)
      << outcome.status.toString();
  EXPECT_NE(outcome.status.message(), "");
  EXPECT_EQ(outcome.status.message().find('\n'), std::string::npos);
}

TEST_P(Bad, IsNoDangerToTools) {
  const Patiently patiently;
  const std::string path = Folder / (GetParam() + ".onnx");
  const Expected<native::Inspection> report = native::inspect(path);
  EXPECT_NE(report ? "report" : report.status().message(), "");
  aot::GenerateOptions options;
  options.name = "bad";
  const Expected<aot::Generated> source = aot::generate(path, options);
  EXPECT_NE(source ? source->source : source.status().message(), "");
}

INSTANTIATE_TEST_SUITE_P(Models, Bad, ::testing::ValuesIn(models("bad-")), testName);

TEST(HostileModels, TakeNoMoreMemoryThanIsNeeded) {
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
  for (const char *prefix : {"good-", "bad-"})
    for (const std::string &name : models(prefix))
      tryModel(Folder / (name + ".onnx"), Patience);
  EXPECT_LT(megabytes(), MostMegabytes);
#endif
}

} // namespace
} // namespace mlbridge::testing
