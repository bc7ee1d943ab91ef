// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Waiting, and for how long: a server that reads nothing, deadlines that are short or
// without limit, handshakes that take long.
#include "conversation/outbox.h"
#include "testing/built.h"
#include "testing/fake_server.h"

#include <csignal>
#include <future>

namespace mlbridge {
namespace {

using namespace testing;
using namespace std::chrono_literals;

class Waiting : public ::testing::TestWithParam<std::string> {
protected:
  static void SetUpTestSuite() { ::signal(SIGPIPE, SIG_IGN); }
};

/// The events of episodes that a server gets: the reward of number n is n, the others have it in a
/// name.
struct Heard {
  FrameKind kind;
  int episode;
};

/// Answers requests with 42 until the compiler is gone.
std::vector<Heard> hear(const Peer &peer) {
  std::vector<Heard> heard;
  while (const auto frame = peer.read()) {
    const auto &[header, bytes] = *frame;
    const Span<const uint8_t> payload(bytes.data(), bytes.size());
    if (header.kind == FrameKind::Request)
      peer.write(replyOf(42, header.request, header.stream));
    else if (header.kind == FrameKind::EpisodeBegin)
      heard.push_back({header.kind, std::stoi(decode<EpisodeBegin>(payload)->episode)});
    else if (header.kind == FrameKind::Reward)
      heard.push_back({header.kind, int(decode<RewardMessage>(payload)->value)});
    else if (header.kind == FrameKind::EpisodeEnd)
      heard.push_back({header.kind, std::stoi(decode<EpisodeEnd>(payload)->outcome.message())});
  }
  return heard;
}

TEST_P(Waiting, TheNewestEventsAreKeptForAServerThatReadsNothing) {
  constexpr int Episodes = 12'000;
  Listening server(GetParam());
  std::promise<void> reads;
  auto heard = std::async(std::launch::async, [&] {
    const Peer peer = server.welcome();
    reads.get_future().wait();
    return hear(peer);
  });
  uint64_t dropped = 0;
  {
    Runner runner = open(server.uri(), OneNumber, within(20s));
    const std::string unit(1000, 'c');
    for (int i = 0; i < Episodes; ++i) {
      ASSERT_TRUE(runner.beginEpisode(std::to_string(i), unit));
      ASSERT_TRUE(runner.reward(i));
      ASSERT_TRUE(runner.endEpisode(Status(Code::Cancelled, std::to_string(i))));
    }
    dropped = runner.droppedEvents();
    EXPECT_GT(dropped, 0u);
    reads.set_value();
    Expected<int64_t> answer = runner.evaluate<int64_t>();
    EXPECT_EQ(answer ? *answer : 0, 42) << answer.status().toString();
    EXPECT_EQ(runner.droppedEvents(), dropped);
  }
  const std::vector<Heard> all = heard.get();
  ASSERT_EQ(all.size() + dropped, 3u * Episodes);
  constexpr FrameKind Order[] = {FrameKind::EpisodeBegin, FrameKind::Reward, FrameKind::EpisodeEnd};
  std::vector<int> numbers;
  for (const Heard &one : all) {
    numbers.push_back(3 * one.episode + int(std::find(Order, Order + 3, one.kind) - Order));
    ASSERT_TRUE(numbers.size() == 1 || numbers.back() > numbers[numbers.size() - 2]) << "in order";
  }
  ASSERT_GE(numbers.size(), Outbox::MostEvents);
  EXPECT_EQ(numbers.back(), 3 * Episodes - 1);
  EXPECT_EQ(numbers[numbers.size() - Outbox::MostEvents], 3 * Episodes - int(Outbox::MostEvents))
      << "the newest without a gap";
}

TEST_P(Waiting, ARunnerWithoutRequestsKeepsTheNewestEvents) {
  Listening server(GetParam());
  auto heard = std::async(std::launch::async, [&] { return hear(server.welcome()); });
  {
    Runner runner = open(server.uri(), OneNumber, within(20s));
    for (int i = 0; i < 1000; ++i)
      ASSERT_TRUE(runner.reward(i));
    EXPECT_EQ(runner.droppedEvents(), 1000 - Outbox::MostEvents);
    EXPECT_TRUE(runner.evaluate<int64_t>());
  }
  const std::vector<Heard> all = heard.get();
  ASSERT_EQ(all.size(), Outbox::MostEvents);
  EXPECT_EQ(all.back().episode, 999);
}

TEST_P(Waiting, AMessageThatADeadlineCutIsFinishedLater) {
  constexpr int64_t Size = 8 << 20; // more than any transport takes at once
  Welcome large;
  large.maxMessage = 1 << 30;
  large.signature = {{TensorSpec::of<bool>("x", {Size})}, {TensorSpec::of<int64_t>("y")}};
  Listening server(GetParam());
  std::promise<void> reads;
  auto served = std::async(std::launch::async, [&] {
    const Peer peer = server.welcome(large);
    reads.get_future().wait();
    std::vector<FrameKind> kinds;
    while (const auto frame = peer.read()) {
      const auto &[header, bytes] = *frame;
      kinds.push_back(header.kind);
      if (header.kind != FrameKind::Request)
        continue;
      const auto ones = std::count(bytes.begin(), bytes.end(), uint8_t(1));
      if (header.request == 1)
        EXPECT_GE(ones, Size);
      else
        peer.write(replyOf(Size - ones, header.request, header.stream));
    }
    return kinds;
  });
  {
    Runner runner = open(server.uri(), *large.signature, within(60s));
    Span<bool> x = runner.input<bool>("x");
    std::fill(x.begin(), x.end(), true);
    const Status late = runner.evaluate(Deadline::after(20ms));
    EXPECT_EQ(late.code(), Code::DeadlineExceeded) << late.toString();
    // Before the rest has gone, nothing else can go.
    EXPECT_EQ(runner.evaluate(Deadline::after(1ms)).code(), Code::DeadlineExceeded);
    reads.set_value();
    std::fill(x.begin(), x.end(), false);
    Expected<int64_t> answer = runner.evaluate<int64_t>();
    ASSERT_TRUE(answer) << answer.status().toString();
    EXPECT_GT(*answer, Size / 2);
  }
  const std::vector<FrameKind> kinds = served.get();
  const std::vector<FrameKind> expected = {FrameKind::OpenStream, FrameKind::Request,
                                           FrameKind::Cancel, FrameKind::Request,
                                           FrameKind::CloseStream};
  EXPECT_EQ(
      std::vector<FrameKind>(kinds.begin(), kinds.begin() + std::min<ptrdiff_t>(kinds.size(), 4)),
      std::vector<FrameKind>(expected.begin(), expected.begin() + 4));
}

TEST_P(Waiting, OneCallWithAShortDeadlineDoesNotOpenTheCircuit) {
  Listening server(GetParam());
  std::promise<void> answers;
  auto served = std::async(std::launch::async, [&] {
    const Peer peer = server.welcome();
    answers.get_future().wait();
    (void)hear(peer);
  });
  {
    OpenOptions options = within(60s);
    options.sharedBudget = true;
    Model model = Model::open(server.uri(), options);
    ASSERT_TRUE(model.bind(OneNumber));
    Runner runner = model.newRunner(), other = model.newRunner();
    EXPECT_EQ(runner.evaluate(Deadline::after(1ms)).code(), Code::DeadlineExceeded);
    answers.set_value();
    EXPECT_TRUE(runner.evaluate());
    EXPECT_TRUE(other.evaluate());
  }
  served.get();
}

/// Over FIFOs a compiler finds what is left of its last conversation, and is alone there.
using WaitingAnew = Waiting;

// A thread that waits for another's handshake does so by its own deadline.
TEST_P(WaitingAnew, NobodyWaitsForAHandshakeLongerThanItsDeadline) {
  Listening server(GetParam());
  std::promise<void> made, shaking, release;
  auto served = std::async(std::launch::async, [&] {
    {
      const Peer first = server.welcome();
      made.get_future().wait();
    }
    const Peer second = server.accept();
    const auto hello = second.read();
    ASSERT_TRUE(hello);
    shaking.set_value();
    release.get_future().wait();
    second.write(welcomeTo(hello->second));
    EXPECT_TRUE(hear(second).empty());
  });
  {
    Model model = Model::open(server.uri() + "?retries=100", within(60s));
    ASSERT_TRUE(model.bind(OneNumber)) << model.status().toString();
    Runner runner = model.newRunner(), hasty = model.newRunner();
    made.set_value();
    auto patient = std::async(std::launch::async, [&] { return runner.evaluate(); });
    shaking.get_future().wait();
    EXPECT_EQ(hasty.evaluate(Deadline::after(10ms)).code(), Code::DeadlineExceeded);
    EXPECT_EQ(patient.wait_for(0s), std::future_status::timeout);
    release.set_value();
    const Status status = patient.get();
    EXPECT_TRUE(status) << status.toString();
    EXPECT_TRUE(hasty.evaluate());
  }
  served.get();
}

TEST_P(Waiting, AServerThatSaysMuchBeforeItsWelcomeIsGivenUpInTime) {
  Listening server(GetParam());
  std::atomic<bool> over{false};
  auto served = std::async(std::launch::async, [&] {
    const Peer peer = server.accept();
    (void)peer.read();
    const Bytes noise = frameOf(FrameKind::StreamOpened, Buffer(), 1);
    Bytes much;
    for (int i = 0; i < 100; ++i)
      much.insert(much.end(), noise.begin(), noise.end());
    while (!over)
      peer.write(much);
  });
  EXPECT_EQ(Model::open(server.uri(), within(200ms)).status().code(), Code::DeadlineExceeded);
  over = true;
  served.get();
}

TEST_P(WaitingAnew, WhatAServerSaysOfItselfIsBounded) {
  Listening server(GetParam());
  Welcome welcome;
  welcome.metadata["much"] = std::string(5 << 20, 'm');
  auto served = std::async(std::launch::async, [&] {
    for (int i = 0; i < 2; ++i)
      server.welcome(welcome).drain();
  });
  const Status refused = Model::open(server.uri(), within(20s)).status();
  EXPECT_EQ(refused.code(), Code::LimitExceeded) << refused.toString();
  EXPECT_NE(refused.message().find("the limit is 4194304 ('max-welcome')"), std::string::npos)
      << refused.message();
  const Status taken = Model::open(server.uri() + "?max-welcome=8M", within(20s)).status();
  EXPECT_TRUE(taken) << taken.toString();
  served.get();
}

INSTANTIATE_TEST_SUITE_P(Pipe, Waiting, ::testing::Values("pipe"),
                         nameOf); // for one compiler at a time
INSTANTIATE_TEST_SUITE_P(All, Waiting, ::testing::ValuesIn(transports()), nameOf);
INSTANTIATE_TEST_SUITE_P(All, WaitingAnew, ::testing::ValuesIn(transports()), nameOf);

// Every place where a duration is added must bear one without limit.
class Unlimited : public ::testing::TestWithParam<std::string> {};

TEST_P(Unlimited, ThreadsGoOnAfterTheServersRestart) {
  const TemporaryFolder folder;
  const std::string &scheme = GetParam();
  std::string uri = scheme + ":" + (scheme == "grpc" ? "localhost:0" : folder / "s");
  ServerOptions options;
  options.signature = OneNumber;
  const auto answer = [](Event &event) {
    if (event.kind() != EventKind::Request)
      return;
    *event.output(0).as<int64_t>().begin() = 42;
    EXPECT_TRUE(event.reply());
  };
  auto server = std::make_unique<ServerThread>(uri, options, answer);
  uri = server->server().uri();
  constexpr int Threads = 4;
  for (const Duration deadline : {Duration::max(), Duration::max() - 1h}) {
    Model model = Model::open(uri + "?retries=100", within(deadline));
    ASSERT_TRUE(model.bind(OneNumber)) << model.status().toString();
    std::vector<Runner> runners;
    for (int i = 0; i < Threads; ++i) {
      runners.push_back(model.newRunner());
      ASSERT_TRUE(runners.back().evaluate()) << runners.back().status().toString();
    }
    for (int restart = 0; restart < 3; ++restart) {
      server.reset();
      server = std::make_unique<ServerThread>(uri, options, answer);
      std::vector<std::future<Status>> asked;
      for (Runner &runner : runners)
        asked.push_back(std::async(std::launch::async, [&runner] { return runner.evaluate(); }));
      for (std::future<Status> &one : asked) {
        const Status status = one.get();
        EXPECT_TRUE(status) << status.toString();
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, Unlimited, ::testing::ValuesIn(transports()), nameOf);

} // namespace
} // namespace mlbridge
