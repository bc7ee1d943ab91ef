// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A model in a compiler leaves the process and the user's files as they were. A program of its own,
// because ONNX Runtime starts once per process.
#include "test_models.h"

#include <mlbridge/model.h>

#include <gtest/gtest.h>

#include <algorithm>
#include <csignal>
#include <unistd.h>

namespace mlbridge {
namespace {

namespace fs = std::filesystem;

size_t filesBelow(const std::string &folder) {
  return static_cast<size_t>(
      std::distance(fs::recursive_directory_iterator(folder), fs::recursive_directory_iterator()));
}

size_t threads() {
  return static_cast<size_t>(
      std::distance(fs::directory_iterator("/proc/self/task"), fs::directory_iterator()));
}

std::vector<std::string> environmentNow() {
  std::vector<std::string> all;
  for (char **entry = environ; *entry; ++entry)
    all.emplace_back(*entry);
  return all;
}

std::vector<void (*)(int)> signalHandlers() {
  std::vector<void (*)(int)> all;
  for (int number = 1; number < 32; ++number) {
    struct sigaction action = {};
    sigaction(number, nullptr, &action);
    all.push_back(action.sa_handler);
  }
  return all;
}

TEST(SideEffects, OpeningAndEvaluatingLeavesNoTrace) {
  const onnx::ScratchFolder home;
  const onnx::Variable a("HOME", home.path().c_str());
  const onnx::Variable b("XDG_CACHE_HOME", home.path().c_str());
  const onnx::Variable c("TMPDIR", home.path().c_str());
  // With one of these ONNX Runtime would keep still by itself.
  const onnx::Variable d("CI", nullptr);
  const onnx::Variable e("ORT_DISABLE_TELEMETRY", nullptr);
  const onnx::Variable f("ORT_RUNNING_UNIT_TESTS", nullptr);
  const size_t threadsBefore = threads();
  const std::vector<std::string> environmentBefore = environmentNow();
  const auto handlersBefore = signalHandlers();

  Runner runner = open(onnx::golden("linear"), {{TensorSpec::of<float>("x", {1, 4})},
                                                {TensorSpec::of<float>("y", {1, 1})}});
  ASSERT_TRUE(runner) << runner.status().toString();
  EXPECT_EQ(runner.evaluate<float>().valueOr(-1.f), 0.5f);

  EXPECT_EQ(filesBelow(home.path()), 0u);
  EXPECT_EQ(threads(), threadsBefore);
  EXPECT_EQ(environmentNow(), environmentBefore);
  EXPECT_EQ(signalHandlers(), handlersBefore);
}

} // namespace
} // namespace mlbridge
