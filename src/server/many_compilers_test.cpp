// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// One server, compilers that come and go, in any number and order.
#include "testing/sum_server.h"

#include <gtest/gtest.h>

#include <fcntl.h>
#include <filesystem>
#include <future>
#include <set>
#include <sys/stat.h>
#include <sys/wait.h>

namespace mlbridge {
namespace {

using namespace testing;
using namespace std::chrono_literals;

class ServerOfMany : public ::testing::TestWithParam<const char *> {
protected:
  std::string address() const { return addressOf(GetParam(), folder_); }
  TemporaryFolder folder_;
};

TEST_P(ServerOfMany, ServesThemAllAtOnce) {
  const std::string uri = address();
  ServerThread server(uri, serving(Sum), answerSum);
  std::vector<std::thread> threads;
  std::atomic<int> right{0};
  for (int64_t t = 0; t < 16; ++t)
    threads.emplace_back([&, t] {
      Runner runner = open(uri, Sum);
      for (int64_t i = 0; i < 50; ++i) {
        (void)runner.set("k", t + i);
        if (runner.evaluate() && runner.output<int64_t>("twice")[0] == 2 * (t + i))
          ++right;
      }
    });
  for (std::thread &thread : threads)
    thread.join();
  EXPECT_EQ(right, 16 * 50);
  EXPECT_EQ(server.server().statistics().connections, 16u);
}

INSTANTIATE_TEST_SUITE_P(All, ServerOfMany, ::testing::Values("unix", "rendezvous", "shm"),
                         [](const auto &info) { return std::string(info.param); });

class Rendezvous : public ::testing::Test {
protected:
  std::set<std::string> files() const {
    std::set<std::string> names;
    for (const auto &entry : std::filesystem::directory_iterator(folder_ / "s"))
      names.insert(entry.path().filename());
    return names;
  }
  void knock(const std::string &text) const {
    const int fd = ::open((folder_ / "s/rendezvous").c_str(), O_WRONLY | O_NONBLOCK);
    ASSERT_GE(fd, 0);
    EXPECT_EQ(::write(fd, text.data(), text.size()), ssize_t(text.size()));
    ::close(fd);
  }
  void expectService() const {
    Runner runner = open(uri(), Sum, within(20s));
    (void)runner.set("k", int64_t(4));
    ASSERT_TRUE(runner.evaluate()) << runner.status().toString();
    EXPECT_EQ(runner.output<int64_t>("twice")[0], 8);
  }
  std::string uri() const { return "pipe:" + folder_ / "s/"; }
  TemporaryFolder folder_;
};

TEST_F(Rendezvous, LeavesNoNamesOnceACompilerIsServed) {
  ServerThread server(uri(), serving(Sum), answerSum);
  Model model = Model::open(uri());
  ASSERT_TRUE(model) << model.status().toString();
  EXPECT_EQ(files(), std::set<std::string>{"rendezvous"});
  server.stop();
  EXPECT_FALSE(std::filesystem::exists(folder_ / "s"));
  EXPECT_EQ(Model::open(uri()).status().code(), Code::Unavailable);
}

TEST_F(Rendezvous, HearsAnAnnouncementAfterGarbage) {
  ServerThread server(uri(), serving(Sum), answerSum);
  knock("mlbridge-pipe 1 ../../etc/passwd\nmlbridge-pipe 1 compiler-1-0\n\n\n");
  knock(std::string(10000, 'x') + "mlbridge-pipe 1 ");
  expectService();
}

TEST_F(Rendezvous, SweepsWhatDeadCompilersLeft) {
  std::filesystem::create_directory(folder_ / "s");
  for (const char *name : {"compiler-1-0.in", "compiler-1-0.out", "mine.out"})
    ASSERT_EQ(::mkfifo((folder_ / "s/" + name).c_str(), 0600), 0);
  ServerThread server(uri(), serving(Sum), answerSum);
  EXPECT_EQ(files(), (std::set<std::string>{"mine.out", "rendezvous"}));
  expectService();
}

TEST_F(Rendezvous, ACompilerThatIsNotHeardLeavesNothing) {
  std::filesystem::create_directory(folder_ / "s");
  ASSERT_EQ(::mkfifo((folder_ / "s/rendezvous").c_str(), 0600), 0);
  const int reader = ::open((folder_ / "s/rendezvous").c_str(), O_RDONLY | O_NONBLOCK);
  EXPECT_EQ(Model::open(uri(), within(100ms)).status().code(), Code::DeadlineExceeded);
  EXPECT_EQ(files(), std::set<std::string>{"rendezvous"});
  ::close(reader);
  EXPECT_EQ(Model::open(uri(), within(20s)).status().code(), Code::Unavailable);
}

TEST_P(ServerOfMany, LosesNoEndOfAnEpisodeWhileOtherThreadsWrite) {
  std::atomic<int> begun{0}, ended{0};
  ServerThread server(address(), serving(Sum), [&](Event &event) {
    begun += event.kind() == EventKind::EpisodeBegin;
    ended += event.kind() == EventKind::EpisodeEnd;
    answerSum(event);
  });
  constexpr int Threads = 8, Episodes = 200;
  {
    Model model = Model::open(address(), within(20s));
    ASSERT_TRUE(model.bind(Sum)) << model.status().toString();
    std::vector<std::thread> threads;
    for (int t = 0; t < Threads; ++t)
      threads.emplace_back([&] {
        for (int i = 0; i < Episodes; ++i) {
          Runner runner = model.newRunner(); // a stream of its own, which must be closed again
          EXPECT_TRUE(runner.beginEpisode("e", ""));
          EXPECT_TRUE(runner.evaluate()) << runner.status().toString();
          EXPECT_TRUE(runner.endEpisode(Status()));
        }
      });
    for (std::thread &thread : threads)
      thread.join();
    Runner last = model.newRunner(); // what is pending goes before it
    EXPECT_TRUE(last.evaluate()) << last.status().toString();
  }
  EXPECT_EQ(begun, Threads * Episodes);
  EXPECT_EQ(ended, Threads * Episodes);
}

TEST_P(ServerOfMany, ShakesHandsWhileAnEventIsHandledSlowly) {
  std::promise<void> inHandler, release;
  ServerThread server(address(), serving(Sum), [&](Event &event) {
    if (event.kind() == EventKind::EpisodeEnd) {
      inHandler.set_value();
      release.get_future().wait();
    }
    answerSum(event);
  });
  Runner runner = open(address(), Sum, within(20s));
  ASSERT_TRUE(runner.beginEpisode("e", ""));
  ASSERT_TRUE(runner.evaluate()) << runner.status().toString();
  ASSERT_TRUE(runner.endEpisode(Status()));
  inHandler.get_future().wait();
  const Model other = Model::open(address(), within(20s));
  EXPECT_TRUE(other) << other.status().toString();
  release.set_value();
}

TEST_P(ServerOfMany, AForkedChildThatDropsARunnerLeavesTheParentsStream) {
  ServerThread server(address(), serving(Sum), answerSum);
  auto runner = std::make_unique<Runner>(open(address(), Sum, within(20s)));
  ASSERT_TRUE(runner->evaluate()) << runner->status().toString();
  const pid_t child = ::fork();
  if (child == 0) {
    runner.reset();
    ::_exit(0);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(runner->evaluate()) << runner->status().toString();
}

TEST_P(ServerOfMany, AnEventThatOutlivesItsServerKeepsNothingOpen) {
  Expected<Server> server = Server::listen(address(), serving(Sum));
  ASSERT_TRUE(server) << server.status().toString();
  std::promise<Status> answered;
  std::thread compiler([&] {
    Runner runner = open(address(), Sum, within(20s));
    answered.set_value(runner.evaluate());
  });
  Expected<Event> event = server->next();
  ASSERT_TRUE(event) << event.status().toString();
  {
    const Server gone = std::move(*server);
  }
  EXPECT_FALSE(answered.get_future().get());
  compiler.join();
  EXPECT_FALSE(event->reply());
  EXPECT_TRUE(Server::listen(address(), serving(Sum)));
}

TEST(Server, ACompilerOfWhomEverythingWasAnsweredGetsNoAnswerOfAnEarlierOne) {
  // One process after the other over one pair of FIFOs, their numbers alike; the server sees the
  // first one's request only after it is gone.
  TemporaryFolder folder;
  const std::string uri = "pipe:" + folder / "p";
  Expected<Server> server = Server::listen(uri, serving(Sum));
  ASSERT_TRUE(server) << server.status().toString();
  const auto ask = [&](int64_t k, Duration deadline) {
    Runner runner = open(uri, Sum, within(deadline));
    (void)runner.set("k", k);
    const Status status = runner.evaluate();
    return status ? runner.output<int64_t>("twice")[0] : -1;
  };
  std::promise<void> firstGone;
  std::thread compilers([&] {
    EXPECT_EQ(ask(100, 300ms), -1);
    firstGone.set_value();
    EXPECT_EQ(ask(1, 20s), 2);
  });
  Expected<Event> held = server->next(); // of the first
  ASSERT_TRUE(held) << held.status().toString();
  firstGone.get_future().wait();
  bool answered = false;
  while (!answered) {
    Expected<Event> event = server->next();
    ASSERT_TRUE(event) << event.status().toString();
    if (event->kind() != EventKind::Request)
      continue;
    *held->output(1).as<int64_t>().begin() = 200;
    EXPECT_FALSE(held->reply());
    answerSum(*event);
    answered = true;
  }
  compilers.join();
}

TEST(Server, OutputsThatNoMessageCanHoldAreRefused) {
  TemporaryFolder folder;
  const std::string uri = "unix:" + folder / "s";
  ServerThread server(uri, ServerOptions(), answerSum);
  Runner runner =
      open(uri, {{TensorSpec::of<float>("x")}, {TensorSpec::of<double>("y", {int64_t(1) << 30})}},
           within(20s));
  const Status status = runner.status() ? runner.evaluate() : runner.status();
  EXPECT_EQ(status.code(), Code::LimitExceeded) << status.toString();
}

} // namespace
} // namespace mlbridge
