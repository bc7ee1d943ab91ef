// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Compilers and a server in one process, over every transport and serdes.
#include "testing/server_thread.h"

#include <mlbridge/environment.h>

#include <gtest/gtest.h>

#include <csignal>
#include <fcntl.h>
#include <filesystem>
#include <future>
#include <mutex>
#include <numeric>
#include <set>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>

namespace mlbridge {
namespace {

using testing::ServerThread;
using testing::TemporaryFolder;
using namespace std::chrono_literals;

const Signature Sum{{TensorSpec::of<float>("x", {4}), TensorSpec::of<int64_t>("k")},
                    {TensorSpec::of<float>("sum"), TensorSpec::of<int64_t>("twice")}};

void answerSum(Event &event) {
  if (event.kind() != EventKind::Request)
    return;
  const Span<float> x = event.input(0).as<float>();
  *event.output(0).as<float>().begin() = std::accumulate(x.begin(), x.end(), 0.0f);
  *event.output(1).as<int64_t>().begin() = 2 * event.input(1).as<int64_t>()[0];
  EXPECT_TRUE(event.reply());
}

ServerOptions serving(Signature signature, Metadata metadata = {}) {
  ServerOptions options;
  options.signature = std::move(signature);
  options.metadata = std::move(metadata);
  return options;
}

OpenOptions within(Duration deadline) {
  OpenOptions options;
  options.deadline = deadline;
  return options;
}

/// `kind`: unix, pipe (of one compiler) or rendezvous (pipes of many).
std::string addressOf(std::string_view kind, const TemporaryFolder &folder) {
  return kind == "rendezvous" ? "pipe:" + folder / "s/" : std::string(kind) + ":" + folder / "s";
}

/// Kind of address, and serdes.
class ServerOver : public ::testing::TestWithParam<std::pair<const char *, const char *>> {
protected:
  std::string address() const { return addressOf(GetParam().first, folder_); }
  std::string uri() const { return address() + "?serdes=" + GetParam().second; }
  TemporaryFolder folder_;
};

TEST_P(ServerOver, AnswersEveryRequestOfARunner) {
  ServerThread server(address(), serving(Sum, {{"answer", "42"}}), answerSum);
  Model model = Model::open(uri());
  ASSERT_TRUE(model) << model.status().toString();
  EXPECT_EQ(model.metadata("answer"), "42");
  ASSERT_NE(model.modelSignature(), nullptr);
  EXPECT_EQ(*model.modelSignature(), Sum);
  ASSERT_TRUE(model.bind(Sum));
  Runner runner = model.newRunner();
  for (int64_t i = 0; i < 100; ++i) {
    const float f = static_cast<float>(i);
    ASSERT_TRUE(runner.set("x", {f, 1.0f, 2.0f, 3.0f}));
    ASSERT_TRUE(runner.set("k", i));
    ASSERT_TRUE(runner.evaluate()) << runner.status().toString();
    EXPECT_EQ(runner.output<float>("sum")[0], f + 6);
    EXPECT_EQ(runner.output<int64_t>("twice")[0], 2 * i);
  }
}

TEST_P(ServerOver, EightThreadsShareOneConnection) {
  ServerThread server(address(), serving(Sum), answerSum);
  Model model = Model::open(uri());
  ASSERT_TRUE(model.bind(Sum)) << model.status().toString();
  std::vector<std::thread> threads;
  std::atomic<int> right{0};
  for (int64_t t = 0; t < 8; ++t)
    threads.emplace_back([&, t] {
      Runner runner = model.newRunner();
      for (int64_t i = 0; i < 200; ++i) {
        (void)runner.set("k", t * 1000 + i);
        if (runner.evaluate() && runner.output<int64_t>("twice")[0] == 2 * (t * 1000 + i))
          ++right;
      }
    });
  for (std::thread &thread : threads)
    thread.join();
  EXPECT_EQ(right, 8 * 200);
  EXPECT_EQ(server.server().statistics().connections, 1u);
  EXPECT_EQ(server.server().statistics().streams, 8u);
}

TEST_P(ServerOver, CarriesDynamicShapesAndStrings) {
  const Signature signature{
      {TensorSpec::of<float>("nodes", {Dynamic, 3}), TensorSpec::of<std::string>("name")},
      {TensorSpec::of<float>("rows", {Dynamic}), TensorSpec::of<std::string>("echo", {2})}};
  ServerThread server(address(), serving(signature), [](Event &event) {
    if (event.kind() != EventKind::Request)
      return;
    const TensorView nodes = event.input(0);
    Expected<TensorView> rows = event.resizeOutput(0, {nodes.shape.data(), 1});
    ASSERT_TRUE(rows);
    for (size_t i = 0; i < rows->count; ++i)
      rows->as<float>()[i] = nodes.as<float>()[3 * i];
    event.output(1).as<std::string>()[0] = event.input(1).as<std::string>()[0];
    event.output(1).as<std::string>()[1] = "!";
    EXPECT_TRUE(event.reply());
  });
  Runner runner = open(uri(), signature);
  for (int64_t n : {1, 5, 0, 1000, 2}) {
    Expected<Span<float>> nodes = runner.resize<float>("nodes", {n, 3});
    ASSERT_TRUE(nodes) << nodes.status().toString();
    std::iota(nodes->begin(), nodes->end(), 0.0f);
    ASSERT_TRUE(runner.set("name", "f" + std::to_string(n)));
    ASSERT_TRUE(runner.evaluate()) << runner.status().toString();
    ASSERT_EQ(runner.output<float>("rows").size(), static_cast<size_t>(n));
    if (n) {
      EXPECT_EQ(runner.output<float>("rows")[n - 1], 3.0f * static_cast<float>(n - 1));
    }
    EXPECT_EQ(runner.output<std::string>("echo")[0], "f" + std::to_string(n));
  }
}

TEST_P(ServerOver, LargeMessagesGoBothWaysAtOnce) {
  constexpr int64_t Size = 1 << 20; // 4 MiB, more than any channel buffers
  const Signature signature{{TensorSpec::of<float>("x", {Size})},
                            {TensorSpec::of<float>("y", {Size})}};
  ServerThread server(address(), serving(signature), [](Event &event) {
    if (event.kind() != EventKind::Request)
      return;
    const Span<float> x = event.input(0).as<float>(), y = event.output(0).as<float>();
    std::copy(x.begin(), x.end(), y.begin());
    EXPECT_TRUE(event.reply());
  });
  Model model = Model::open(uri(), within(60s));
  ASSERT_TRUE(model.bind(signature)) << model.status().toString();
  std::vector<std::thread> threads;
  std::atomic<int> right{0};
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      Runner runner = model.newRunner();
      const Span<float> x = runner.input<float>("x");
      for (size_t i = 0; i < x.size(); ++i)
        x[i] = static_cast<float>((i + t) % 1000);
      for (int round = 0; round < 2; ++round)
        if (runner.evaluate() && runner.output<float>("y")[Size - 1] == x[Size - 1])
          ++right;
    });
  for (std::thread &thread : threads)
    thread.join();
  EXPECT_EQ(right, 8);
}

TEST_P(ServerOver, AFailingPolicyFailsThatRequestAlone) {
  ServerThread server(address(), serving(Sum), [](Event &event) {
    if (event.kind() == EventKind::Request && event.input(1).as<int64_t>()[0] == 7) {
      EXPECT_TRUE(event.fail(Status(Code::PolicyFailed, "seven is not served")));
    } else {
      answerSum(event);
    }
  });
  Runner runner = open(uri(), Sum);
  (void)runner.set("k", int64_t(7));
  const Status status = runner.evaluate();
  EXPECT_EQ(status.code(), Code::PolicyFailed);
  EXPECT_NE(status.message().find("seven is not served"), std::string::npos) << status.message();
  (void)runner.set("k", int64_t(8));
  EXPECT_TRUE(runner.evaluate()) << runner.status().toString();
}

TEST_P(ServerOver, RefusesAnotherSignatureAtBinding) {
  ServerThread server(address(), serving(Sum), answerSum);
  Model model = Model::open(uri());
  Signature other = Sum;
  other.inputs[0].shape = {5};
  const Status status = model.bind(other);
  EXPECT_EQ(status.code(), Code::Mismatch);
  EXPECT_NE(status.message().find("float32[5]"), std::string::npos) << status.message();
  EXPECT_NE(status.message().find("float32[4]"), std::string::npos) << status.message();
}

TEST_P(ServerOver, AServerThatNeverAnswersCostsOneDeadlineAltogether) {
  std::promise<void> release;
  std::shared_future<void> released = release.get_future().share();
  ServerThread server(address(), serving(Sum), [released](Event &event) {
    if (event.kind() == EventKind::Request)
      released.wait();
  });
  Model model = Model::open(uri(), within(300ms));
  ASSERT_TRUE(model.bind(Sum)) << model.status().toString();
  Runner runner = model.newRunner();
  const auto begin = Deadline::Clock::now();
  EXPECT_EQ(runner.evaluate().code(), Code::DeadlineExceeded);
  for (int i = 0; i < 1000; ++i)
    EXPECT_EQ(runner.evaluate().code(), Code::Unavailable);
  Runner second = model.newRunner();
  EXPECT_EQ(second.evaluateOr<int64_t>([] { return int64_t(99); }), 99);
  EXPECT_LT(Deadline::Clock::now() - begin, 600ms); // two would be more
  release.set_value();
}

TEST_P(ServerOver, AServerThatGoesAwayIsNoticedAtOnce) {
  auto server = std::make_unique<ServerThread>(address(), serving(Sum), answerSum);
  Model model = Model::open(uri(), within(60s));
  ASSERT_TRUE(model.bind(Sum)) << model.status().toString();
  Runner runner = model.newRunner();
  EXPECT_TRUE(runner.evaluate());
  server.reset();
  const Code code = runner.evaluate().code();
  EXPECT_TRUE(code == Code::Closed || code == Code::Unavailable) << runner.status().toString();
  // A new one with the same model is used again.
  server = std::make_unique<ServerThread>(address(), serving(Sum), answerSum);
  EXPECT_TRUE(runner.evaluate()) << runner.status().toString();
}

TEST_P(ServerOver, EpisodesReachThePolicyInOrder) {
  std::mutex mutex;
  std::vector<std::string> seen;
  std::promise<void> ended;
  ServerThread server(address(), serving(Sum), [&](Event &event) {
    const std::lock_guard<std::mutex> lock(mutex);
    const RequestContext &c = event.context();
    const std::string who = std::string(c.episode) + "/" + std::string(c.context);
    switch (event.kind()) {
    case EventKind::EpisodeBegin:
      seen.push_back("begin " + who);
      break;
    case EventKind::Request:
      seen.push_back("step " + std::to_string(c.step));
      answerSum(event);
      break;
    case EventKind::Reward:
      seen.push_back("reward " + std::to_string(event.reward()));
      break;
    case EventKind::EpisodeEnd:
      seen.push_back("end " + std::string(name(event.outcome().code())));
      if (seen.size() > 6)
        ended.set_value();
      break;
    }
  });
  Model model = Model::open(uri() + "&episode=e1");
  ASSERT_TRUE(model.bind(Sum)) << model.status().toString();
  {
    Runner runner = model.newRunner();
    EXPECT_TRUE(runner.beginEpisode("e1", "a.c"));
    EXPECT_TRUE(runner.evaluate());
    EXPECT_TRUE(runner.reward(0.5));
    EXPECT_TRUE(runner.evaluate());
    EXPECT_TRUE(runner.endEpisode(Status::ok()));
    EXPECT_TRUE(runner.beginEpisode("e2", "b.c"));
    EXPECT_TRUE(runner.evaluate());
  } // gone in mid-episode
  ended.get_future().wait();
  const std::lock_guard<std::mutex> lock(mutex);
  const std::vector<std::string> expected = {"begin e1/a.c",
                                             "step 0",
                                             "reward 0.500000",
                                             "step 1",
                                             "end " + std::string(name(Code::Ok)),
                                             "begin e2/b.c",
                                             "step 0",
                                             "end " + std::string(name(Code::Closed))};
  EXPECT_EQ(seen, expected);
}

TEST_P(ServerOver, ReportsItsAddressFilesWithMode0600AndRemovesThem) {
  std::vector<std::string> files = {folder_ / "s"};
  if (std::string(GetParam().first) == "pipe")
    files = {folder_ / "s.in", folder_ / "s.out"};
  if (std::string(GetParam().first) == "rendezvous")
    files = {folder_ / "s/rendezvous"};
  struct stat info{};
  {
    ServerThread server(address(), serving(Sum), answerSum);
    for (const std::string &file : files) {
      ASSERT_EQ(::stat(file.c_str(), &info), 0) << file;
      EXPECT_EQ(info.st_mode & 0777, 0600u) << file;
    }
    EXPECT_EQ(Server::listen(address(), serving(Sum)).status().code(), Code::Busy);
  }
  for (const std::string &file : files)
    EXPECT_NE(::stat(file.c_str(), &info), 0) << file;
}

INSTANTIATE_TEST_SUITE_P(
    All, ServerOver,
    ::testing::Values(std::pair("unix", "bitstream"), std::pair("pipe", "bitstream"),
                      std::pair("unix", "json"), std::pair("pipe", "json"),
                      std::pair("rendezvous", "bitstream"), std::pair("rendezvous", "json")),
    [](const auto &info) { return std::string(info.param.first) + "_" + info.param.second; });

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

INSTANTIATE_TEST_SUITE_P(All, ServerOfMany, ::testing::Values("unix", "rendezvous"),
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
          EXPECT_TRUE(runner.endEpisode(Status::ok()));
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
  ASSERT_TRUE(runner.endEpisode(Status::ok()));
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

TEST(Server, TakesTheSignatureOfTheCompilerIfItHasNone) {
  TemporaryFolder folder;
  const std::string uri = "unix:" + folder / "s";
  ServerThread server(uri, ServerOptions(), answerSum);
  Runner runner = open(uri, Sum);
  (void)runner.set("k", int64_t(21));
  EXPECT_TRUE(runner.evaluate()) << runner.status().toString();
  EXPECT_EQ(runner.output<int64_t>("twice")[0], 42);
}

TEST(Server, OneConnectionTooManyIsToldSo) {
  TemporaryFolder folder;
  const std::string uri = "unix:" + folder / "s";
  ServerOptions options = serving(Sum);
  options.maxConnections = 1;
  ServerThread server(uri, options, answerSum);
  Model first = Model::open(uri);
  ASSERT_TRUE(first);
  EXPECT_EQ(Model::open(uri).status().code(), Code::Busy);
}

TEST(Server, ASecondCompilerOnOnePipeIsToldSo) {
  TemporaryFolder folder;
  const std::string uri = "pipe:" + folder / "p";
  ServerThread server(uri, serving(Sum), answerSum);
  Model first = Model::open(uri);
  ASSERT_TRUE(first) << first.status().toString();
  const Status second = Model::open(uri).status();
  EXPECT_EQ(second.code(), Code::Busy);
  EXPECT_NE(second.message().find("pipe:FOLDER/"), std::string::npos) << second.message();
}

TEST(Server, CompilersFollowEachOtherOnOnePipe) {
  TemporaryFolder folder;
  const std::string uri = "pipe:" + folder / "p";
  ServerThread server(uri, serving(Sum), answerSum);
  for (int i = 0; i < 50; ++i) {
    Runner runner = open(uri, Sum, within(20s));
    ASSERT_TRUE(runner.evaluate()) << i << ": " << runner.status().toString();
  }
}

TEST(Server, AnswersPingsAndHandshakesWhileThePolicyRuns) {
  TemporaryFolder folder;
  const std::string uri = "unix:" + folder / "s";
  std::promise<void> entered, release;
  std::shared_future<void> released = release.get_future().share();
  ServerThread server(uri, serving(Sum), [&, released](Event &event) {
    if (event.kind() != EventKind::Request)
      return;
    entered.set_value();
    released.wait();
    answerSum(event);
  });
  Runner runner = open(uri, Sum, within(60s));
  std::thread asking([&] { EXPECT_TRUE(runner.evaluate()) << runner.status().toString(); });
  entered.get_future().wait();
  Model other = Model::open(uri, within(20s)); // the serving thread is busy
  EXPECT_TRUE(other) << other.status().toString();
  release.set_value();
  asking.join();
}

TEST(Server, LosesNoRequestWhileTheHelperThreadComesAndGoes) {
  TemporaryFolder folder;
  const std::string uri = "unix:" + folder / "s";
  int count = 0;
  ServerThread server(uri, serving(Sum), [&](Event &event) {
    if (event.kind() != EventKind::Request)
      return;
    // About as long as it takes until the helper thread takes over.
    const auto until = Deadline::Clock::now() + 4900us + 20us * (count++ % 30);
    while (Deadline::Clock::now() < until) {
    }
    answerSum(event);
  });
  std::vector<std::thread> threads;
  std::atomic<int> right{0};
  for (int t = 0; t < 3; ++t)
    threads.emplace_back([&] {
      Runner runner = open(uri, Sum, within(30s));
      for (int i = 0; i < 60 && runner.evaluate(); ++i)
        ++right;
    });
  for (std::thread &thread : threads)
    thread.join();
  EXPECT_EQ(right, 3 * 60);
}

TEST(Server, StopWakesItAtOnce) {
  TemporaryFolder folder;
  Expected<Server> server = Server::listen("unix:" + folder / "s", ServerOptions());
  ASSERT_TRUE(server);
  std::thread other([&] { server->stop(); });
  EXPECT_EQ(server->next().status().code(), Code::Cancelled);
  other.join();
  EXPECT_EQ(server->next().status().code(), Code::Cancelled);
}

TEST(Server, TheWakeDescriptorWakesOnce) {
  TemporaryFolder folder;
  Expected<Server> server = Server::listen("unix:" + folder / "s", ServerOptions());
  ASSERT_TRUE(server);
  ASSERT_EQ(::write(server->wakeDescriptor(), "x", 1), 1);
  EXPECT_EQ(server->next().status().code(), Code::Cancelled);
  EXPECT_EQ(server->next(Deadline::after(1ms)).status().code(), Code::DeadlineExceeded);
}

TEST(Server, KeepsWhatIsNotItsOwn) {
  TemporaryFolder folder;
  const std::string path = folder / "file";
  (void)!std::system(
      ("echo precious > '" + path + "' && cp '" + path + "' '" + path + ".in'").c_str());
  EXPECT_EQ(Server::listen("unix:" + path, {}).status().code(), Code::InvalidArgument);
  EXPECT_EQ(Server::listen("pipe:" + path, {}).status().code(), Code::InvalidArgument);
  EXPECT_EQ(::access(path.c_str(), F_OK), 0);
  EXPECT_EQ(::access((path + ".in").c_str(), F_OK), 0);
  EXPECT_EQ(Server::listen("unix:" + std::string(200, 'x'), {}).status().code(),
            Code::InvalidArgument);
  EXPECT_EQ(Server::listen("onnx:policy.onnx", {}).status().isOk(), false);
  EXPECT_EQ(Server::listen("unix:" + folder / "s?colour=red", {}).status().code(),
            Code::InvalidArgument);
}

TEST(Server, TakesTheSocketThatADeadServerLeft) {
  TemporaryFolder folder;
  const std::string path = folder / "s";
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  path.copy(address.sun_path, sizeof address.sun_path - 1);
  const int fd = ::socket(AF_UNIX, SOCK_STREAM, 0);
  ASSERT_EQ(::bind(fd, reinterpret_cast<sockaddr *>(&address), sizeof address), 0);
  ::close(fd);
  ServerThread server("unix:" + path, serving(Sum), answerSum);
  EXPECT_TRUE(Model::open("unix:" + path));
}

TEST(Client, WithoutAServerFailsAtOnceAndSaysSo) {
  TemporaryFolder folder;
  for (const char *scheme : {"unix:", "pipe:"}) {
    const auto begin = Deadline::Clock::now();
    const Model model = Model::open(scheme + folder / "none", within(60s));
    EXPECT_EQ(model.status().code(), Code::Unavailable) << model.status().toString();
    EXPECT_NE(model.status().message().find("no server"), std::string::npos);
    EXPECT_LT(Deadline::Clock::now() - begin, 30s);
  }
}

TEST(Client, WaitsForAServerThatIsStarting) {
  TemporaryFolder folder;
  for (const char *scheme : {"unix:", "pipe:"}) {
    const std::string uri = scheme + folder / "late";
    std::future<Model> model = std::async(
        std::launch::async, [&] { return Model::open(uri + "?wait=60s", within(50ms)); });
    EXPECT_EQ(model.wait_for(100ms), std::future_status::timeout);
    ServerThread server(uri, serving(Sum), answerSum);
    EXPECT_TRUE(model.get()) << scheme;
  }
}

TEST(Client, BadAddressesAreNamed) {
  TemporaryFolder folder;
  (void)!std::system(("touch '" + folder / "f.in" + "' '" + folder / "f'").c_str());
  EXPECT_EQ(Model::open("pipe:" + folder / "f").status().code(), Code::InvalidArgument);
  EXPECT_EQ(Model::open("unix:" + folder / "f").status().code(), Code::InvalidArgument);
  EXPECT_EQ(Model::open("unix:" + std::string(200, 'x')).status().code(), Code::InvalidArgument);
  EXPECT_EQ(Model::open("unix:").status().code(), Code::InvalidArgument);
  EXPECT_EQ(Model::open("unix:x?serdes=none").status().isOk(), false);
  EXPECT_EQ(Model::open("unix:x?wiat=5s").status().code(), Code::InvalidArgument);
  EXPECT_EQ(Model::open("unix:x?wait=soon").status().code(), Code::InvalidArgument);
}

TEST(Client, AWriteToADeadPipeRaisesNoSignal) {
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
