// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Compilers and a server in one process, over every transport and serdes.
#include "testing/sum_server.h"

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

using namespace testing;
using namespace std::chrono_literals;

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
  EXPECT_EQ(runner.evaluate().code(), Code::DeadlineExceeded);
  for (int i = 0; i < 1000; ++i)
    EXPECT_EQ(runner.evaluate().code(), Code::Unavailable);
  Runner second = model.newRunner();
  EXPECT_EQ(second.evaluateOr<int64_t>([] { return int64_t(99); }), 99);
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
    const CallContext &c = event.context();
    const std::string who = c.episode + "/" + c.unit;
    switch (event.kind()) {
    case EventKind::EpisodeBegin:
      seen.push_back("begin " + who);
      break;
    case EventKind::Request:
      seen.push_back("step " + std::to_string(event.step()));
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
    case EventKind::Reset:
    case EventKind::Step:
      ADD_FAILURE() << "a model is not driven";
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
    EXPECT_TRUE(runner.endEpisode(Status()));
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

TEST_P(ServerOver, AsksAgainWhereThatIsSafe) {
  auto server = std::make_unique<ServerThread>(address(), serving(Sum), answerSum);
  Model model = Model::open(uri() + "&retries=50", within(20s));
  ASSERT_TRUE(model.bind(Sum)) << model.status().toString();
  Runner runner = model.newRunner();
  (void)runner.set("k", int64_t(4));
  ASSERT_TRUE(runner.evaluate()) << runner.status().toString();
  server.reset();
  std::promise<void> asking;
  std::thread later([&] {
    asking.get_future().wait();
    server = std::make_unique<ServerThread>(address(), serving(Sum), answerSum);
  });
  asking.set_value();
  EXPECT_TRUE(runner.evaluate()) << runner.status().toString();
  EXPECT_EQ(runner.output<int64_t>("twice")[0], 8);
  later.join();
  // In mid-episode nothing is mixed: it fails, and what follows works.
  ASSERT_TRUE(runner.beginEpisode("e", ""));
  ASSERT_TRUE(runner.evaluate()) << runner.status().toString();
  server.reset();
  server = std::make_unique<ServerThread>(address(), serving(Sum), answerSum);
  EXPECT_EQ(runner.evaluate().code(), Code::Closed) << runner.status().toString();
  (void)runner.endEpisode(runner.status());
  EXPECT_TRUE(runner.evaluate()) << runner.status().toString();
}

INSTANTIATE_TEST_SUITE_P(
    All, ServerOver,
    ::testing::Values(std::pair("shm", "bitstream"), std::pair("shm", "json"),
                      std::pair("unix", "bitstream"), std::pair("pipe", "bitstream"),
                      std::pair("unix", "json"), std::pair("pipe", "json"),
                      std::pair("unix", "protobuf"), std::pair("pipe", "protobuf"),
                      std::pair("rendezvous", "bitstream"), std::pair("rendezvous", "json")),
    [](const auto &info) { return std::string(info.param.first) + "_" + info.param.second; });

TEST(Server, LimitsTheBytesThatWait) {
  TemporaryFolder folder;
  const std::string uri = "unix:" + folder / "s";
  const Signature large{{TensorSpec::of<float>("x", {1 << 16})}, {TensorSpec::of<float>("y")}};
  ServerOptions options = serving(large);
  options.maxQueuedBytes = 600 * 1024; // two of 256 KiB
  Expected<Server> server = Server::listen(uri, options);
  ASSERT_TRUE(server) << server.status().toString();
  constexpr int Compilers = 6;
  std::atomic<int> busy{0}, answered{0};
  const auto compile = [&] {
    Model model = Model::open(uri, within(20s));
    EXPECT_TRUE(model.bind(large)) << model.status().toString();
    Runner runner = model.newRunner();
    const Status s = runner.evaluate();
    ++(s ? answered : busy);
    if (!s) {
      EXPECT_EQ(s.code(), Code::Busy) << s.toString();
    }
  };
  // The first event is with the policy, and no longer waits, before any other compiler starts; the
  // helper thread reads what these send.
  std::vector<std::thread> compilers;
  compilers.emplace_back(compile);
  Expected<Event> first = server->next(Deadline::after(20s));
  ASSERT_TRUE(first) << first.status().toString();
  while (compilers.size() < Compilers)
    compilers.emplace_back(compile);
  while (server->statistics().requests < Compilers)
    std::this_thread::yield();
  EXPECT_TRUE(first->reply());
  while (answered + busy < Compilers) {
    Expected<Event> event = server->next(Deadline::after(5ms));
    if (event && event->kind() == EventKind::Request) {
      EXPECT_TRUE(event->reply());
    }
  }
  for (std::thread &compiler : compilers)
    compiler.join();
  EXPECT_EQ(answered, 3);
  EXPECT_EQ(busy, 3);
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

class ServerAtASocket : public ::testing::TestWithParam<const char *> {};
INSTANTIATE_TEST_SUITE_P(All, ServerAtASocket, ::testing::Values("unix:", "shm:"),
                         [](const auto &info) { return info.index ? "shm" : "unix"; });

TEST_P(ServerAtASocket, OneConnectionTooManyIsToldSo) {
  TemporaryFolder folder;
  const std::string uri = GetParam() + folder / "s";
  ServerOptions options = serving(Sum);
  options.maxConnections = 1;
  ServerThread server(uri, options, answerSum);
  Model first = Model::open(uri);
  ASSERT_TRUE(first);
  EXPECT_EQ(Model::open(uri).status().code(), Code::Busy);
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
  EXPECT_EQ(Server::listen("shm:" + path, {}).status().code(), Code::InvalidArgument);
  EXPECT_EQ(::access(path.c_str(), F_OK), 0);
  EXPECT_EQ(::access((path + ".in").c_str(), F_OK), 0);
  EXPECT_EQ(Server::listen("unix:" + std::string(200, 'x'), {}).status().code(),
            Code::InvalidArgument);
  EXPECT_EQ(Server::listen("onnx:policy.onnx", {}).status().ok(), false);
  EXPECT_EQ(Server::listen("unix:" + folder / "s?colour=red", {}).status().code(),
            Code::InvalidArgument);
}

TEST(Client, WithoutAServerFailsAtOnceAndSaysSo) {
  TemporaryFolder folder;
  for (const char *scheme : {"unix:", "pipe:", "shm:"}) {
    const Model model = Model::open(scheme + folder / "none", within(60s));
    EXPECT_EQ(model.status().code(), Code::Unavailable) << model.status().toString();
    EXPECT_NE(model.status().message().find("no server"), std::string::npos);
  }
}

TEST(Client, WaitsForAServerThatIsStarting) {
  TemporaryFolder folder;
  for (const char *scheme : {"unix:", "pipe:", "shm:"}) {
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
  EXPECT_EQ(Model::open("shm:").status().code(), Code::InvalidArgument);
  EXPECT_EQ(Model::open("shm:" + folder / "f").status().code(), Code::InvalidArgument);
  EXPECT_EQ(Model::open("unix:x?serdes=none").status().ok(), false);
  EXPECT_EQ(Model::open("unix:x?wiat=5s").status().code(), Code::InvalidArgument);
  EXPECT_EQ(Model::open("unix:x?wait=soon").status().code(), Code::InvalidArgument);
}

} // namespace
} // namespace mlbridge
