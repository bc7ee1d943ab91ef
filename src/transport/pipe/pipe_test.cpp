// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Servers at a pair of FIFOs.
#include "testing/sum_server.h"

#include <csignal>

namespace mlbridge {
namespace {

using namespace testing;
using namespace std::chrono_literals;

TEST(Pipe, ASecondCompilerOnOnePairIsToldSo) {
  TemporaryFolder folder;
  const std::string uri = "pipe:" + folder / "p";
  ServerThread server(uri, serving(Sum), answerSum);
  Model first = Model::open(uri);
  ASSERT_TRUE(first) << first.status().toString();
  const Status second = Model::open(uri).status();
  EXPECT_EQ(second.code(), Code::Busy);
  EXPECT_NE(second.message().find("pipe:FOLDER/"), std::string::npos) << second.message();
}

TEST(Pipe, CompilersFollowEachOtherOnOnePair) {
  TemporaryFolder folder;
  const std::string uri = "pipe:" + folder / "p";
  ServerThread server(uri, serving(Sum), answerSum);
  for (int i = 0; i < 50; ++i) {
    Runner runner = open(uri, Sum, within(20s));
    ASSERT_TRUE(runner.evaluate()) << i << ": " << runner.status().toString();
  }
}

TEST(Pipe, AWriteToADeadPipeRaisesNoSignal) {
  std::atomic<int> signals{0};
  static std::atomic<int> *counter;
  counter = &signals;
  struct sigaction action{}, before{};
  action.sa_handler = [](int) { ++*counter; };
  ::sigaction(SIGPIPE, &action, &before);
  TemporaryFolder folder;
  const std::string uri = "pipe:" + folder / "p";
  auto server = std::make_unique<ServerThread>(uri, serving(Sum), answerSum);
  Runner runner = open(uri, Sum);
  EXPECT_TRUE(runner.evaluate());
  server.reset();
  EXPECT_FALSE(runner.evaluate());
  EXPECT_FALSE(runner.evaluate());
  EXPECT_EQ(signals, 0);
  ::sigaction(SIGPIPE, &before, nullptr);
}

} // namespace
} // namespace mlbridge
