// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Peers that take more than their share: what the others get, who is closed, what is counted.
#include "testing/few_descriptors.h"
#include "testing/raw_peer.h"

#include <gtest/gtest.h>

#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>

namespace mlbridge {
namespace {

using namespace testing;
using namespace std::chrono_literals;

const Signature Texts{{TensorSpec{"s", ElementType::String, {Dynamic}, {}}},
                      {TensorSpec::of<int64_t>("n")}};

Buffer sumRequest() {
  Buffer request;
  EXPECT_TRUE(request.resize(24)); // x, then k
  std::memset(request.data(), 0, 24);
  return request;
}

/// The test is the server's thread, so that what is there in which order is known.
class Limits : public ::testing::TestWithParam<const char *> {
protected:
  void listen(ServerOptions options) {
    Expected<Server> server = Server::listen(address(), std::move(options));
    ASSERT_TRUE(server) << server.status().toString();
    server_.emplace(std::move(*server));
  }
  std::string address() const { return addressOf(GetParam(), folder_); }
  /// Handles what is there; nothing is for the policy.
  void idle() {
    const Expected<Event> event = server_->next(Deadline::after(10ms));
    EXPECT_EQ(event.status().code(), Code::DeadlineExceeded) << event.status().toString();
  }
  /// The same until something is so.
  template <typename Is> void idleUntil(const Is &is) {
    const Deadline deadline = Deadline::after(60s);
    while (!is() && !deadline.hasPassed())
      (void)server_->next(Deadline::after(2ms));
    EXPECT_TRUE(is());
  }
  std::unique_ptr<RawPeer> greeted(const Buffer &more = {}) {
    auto peer = std::make_unique<RawPeer>(address());
    Buffer bytes;
    RawPeer::appendHello(bytes);
    EXPECT_TRUE(bytes.append(more.data(), more.size()));
    size_t from = 0;
    idleUntil([&] {
      EXPECT_TRUE(peer->offer(bytes, from));
      peer->listen();
      return from == bytes.size() && peer->count(FrameKind::Welcome) == 1;
    });
    return peer;
  }
  ServerStatistics statistics() const { return server_->statistics(); }

  TemporaryFolder folder_;
  std::optional<Server> server_;
};
INSTANTIATE_TEST_SUITE_P(All, Limits, ::testing::Values("unix", "shm", "rendezvous"),
                         [](const auto &info) { return std::string(info.param); });

TEST_P(Limits, ManyRequestsOfOneDoNotKeepAnotherFromThePolicy) {
  listen(serving(Sum));
  constexpr uint32_t Streams = 200;
  Buffer opens, one;
  for (uint32_t i = 1; i <= Streams; ++i)
    RawPeer::appendOpen(opens, i, Sum);
  RawPeer::appendOpen(one, 1, Sum);
  const auto greedy = greeted(opens), modest = greeted(one);
  idleUntil([&] { return statistics().streams == Streams + 1; });
  const Buffer payload = sumRequest();
  Buffer flood, request;
  for (uint32_t i = 1; i <= Streams; ++i)
    RawPeer::append(flood, FrameKind::Request, i, 1, payload.span());
  RawPeer::append(request, FrameKind::Request, 1, 1, payload.span());
  ASSERT_TRUE(greedy->send(flood));
  ASSERT_TRUE(modest->send(request));
  int before = 0;
  for (uint32_t i = 0; i <= Streams; ++i) {
    Expected<Event> event = server_->next(Deadline::after(20s));
    ASSERT_TRUE(event) << event.status().toString();
    if (event->connection() == 2)
      break;
    ++before;
    EXPECT_TRUE(event->reply());
  }
  EXPECT_LE(before, 2);
}

TEST_P(Limits, AFloodOfStatisticsIsAnsweredInTurns) {
  ServerOptions options = serving(Sum);
  options.turnFrames = 8;
  listen(options);
  Buffer one;
  RawPeer::appendOpen(one, 1, Sum);
  const auto greedy = greeted(), modest = greeted(one);
  idleUntil([&] { return statistics().streams == 1; });
  Buffer flood, request;
  constexpr int Asked = 500;
  for (uint64_t i = 1; i <= Asked; ++i)
    RawPeer::append(flood, FrameKind::Statistics, 0, i);
  RawPeer::append(request, FrameKind::Request, 1, 1, sumRequest().span());
  ASSERT_TRUE(greedy->send(flood));
  ASSERT_TRUE(modest->send(request));
  Expected<Event> event = server_->next(Deadline::after(20s));
  ASSERT_TRUE(event) << event.status().toString();
  greedy->listen();
  EXPECT_LE(greedy->count(FrameKind::Statistics), 3 * options.turnFrames);
  EXPECT_TRUE(event->reply());
  // Nothing of it is lost, though the channel may have told of it before.
  idleUntil([&] {
    greedy->listen();
    return greedy->count(FrameKind::Statistics) == Asked;
  });
  EXPECT_EQ(statistics().overLimit, 0u);
}

TEST_P(Limits, WhoDoesNotReadIsClosed) {
  ServerOptions options = serving(Sum);
  options.maxUnsent = 1 << 16;
  listen(options);
  const auto peer = greeted();
  Buffer flood;
  for (uint64_t i = 1; i <= 1000; ++i)
    RawPeer::append(flood, FrameKind::Statistics, 0, i);
  size_t from = 0;
  idleUntil([&] {
    if (from == flood.size())
      from = 0;
    return !peer->offer(flood, from) || statistics().overLimit == 1;
  });
  idleUntil([&] { return statistics().overLimit == 1 && statistics().bytesKept == 0; });
}

TEST_P(Limits, WhatCostsNothingToAskForIsNotKeptAsLongAsReplies) {
  listen(serving(Sum));
  const auto peer = greeted();
  Buffer flood;
  const std::vector<uint8_t> text(64);
  for (uint64_t i = 1; i <= 1000; ++i)
    RawPeer::append(flood, FrameKind::Ping, 0, i, text);
  size_t from = 0;
  uint64_t most = 0;
  idleUntil([&] {
    if (from == flood.size())
      from = 0;
    most = std::max(most, statistics().bytesKept);
    return !peer->offer(flood, from) || statistics().overLimit == 1;
  });
  EXPECT_EQ(statistics().overLimit, 1u);
  EXPECT_LT(most, uint64_t(10) << 20);
}

TEST_P(Limits, StreamsWithLongContextsAreCountedAndTheirMemoryReturns) {
  ServerOptions options = serving(Sum);
  options.maxConnectionMemory = 1 << 20;
  listen(options);
  const auto peer = greeted();
  Buffer opens;
  for (uint32_t i = 1; i <= 20; ++i)
    RawPeer::appendOpen(opens, i, Sum, std::string(100'000, 'c'));
  size_t from = 0;
  idleUntil([&] {
    (void)peer->offer(opens, from);
    return !peer->listen();
  });
  EXPECT_EQ(peer->verdict().code(), Code::LimitExceeded) << peer->verdict().toString();
  EXPECT_EQ(statistics().overLimit, 1u);
  EXPECT_LT(statistics().streams, 12u);
  EXPECT_EQ(statistics().bytesKept, 0u);
}

TEST_P(Limits, AControlMessageBeyondItsLimitIsRefusedByItsHeader) {
  listen(serving(Sum));
  const auto peer = greeted();
  Buffer open;
  RawPeer::append(open, FrameKind::OpenStream, 1, 0, {}, 20'000'000);
  ASSERT_TRUE(peer->send(open));
  idleUntil([&] { return !peer->listen(); });
  EXPECT_EQ(peer->verdict().code(), Code::LimitExceeded) << peer->verdict().toString();
  EXPECT_NE(peer->verdict().message().find("20000000"), std::string::npos);
  EXPECT_EQ(statistics().overLimit, 1u);
}

TEST_P(Limits, WhoKeepsMostGoesWhenAllKeepTooMuch) {
  ServerOptions options = serving(Texts);
  options.maxMemory = 1 << 20;
  listen(options);
  Buffer one, large, small, rest;
  RawPeer::appendOpen(one, 1, Texts);
  const auto greedy = greeted(one), modest = greeted(one);
  RawPeer::append(large, FrameKind::Request, 1, 1, {}, 800'000); // it never comes
  RawPeer::append(small, FrameKind::Request, 1, 1, {}, 400'008);
  ASSERT_TRUE(greedy->send(large));
  idleUntil([&] { return statistics().bytesKept > 800'000; });
  ASSERT_TRUE(modest->send(small));
  idleUntil([&] { return !greedy->listen(); });
  EXPECT_EQ(greedy->verdict().code(), Code::LimitExceeded) << greedy->verdict().toString();
  EXPECT_EQ(statistics().overLimit, 1u);
  EXPECT_TRUE(modest->listen());
}

TEST_P(Limits, EmptyStringsCount) {
  ServerOptions options = serving(Texts);
  options.maxConnectionMemory = 32 << 20;
  listen(options);
  Buffer bytes, payload;
  RawPeer::appendOpen(bytes, 1, Texts);
  const auto peer = greeted(bytes);
  constexpr uint64_t Strings = 1'000'000; // 8 MB there, 32 MB and more here
  ASSERT_TRUE(payload.resize(8 * (Strings + 1)));
  std::memset(payload.data(), 0, payload.size());
  std::memcpy(payload.data(), &Strings, sizeof Strings);
  bytes.clear();
  RawPeer::append(bytes, FrameKind::Request, 1, 1, payload.span());
  size_t from = 0;
  idleUntil([&] {
    EXPECT_TRUE(peer->offer(bytes, from));
    peer->listen();
    return peer->count(FrameKind::Error) == 1;
  });
  EXPECT_NE(peer->frames.back().payload.find("32"), std::string::npos);
  EXPECT_EQ(peer->frames.back().header.request, 1u);
  EXPECT_TRUE(peer->listen()); // that request alone
  EXPECT_EQ(statistics().errors, 1u);
}

TEST_P(Limits, HalfHandshakesAreClosedAndKeepNobodyOut) {
  ServerOptions options = serving(Sum);
  options.maxConnections = 1;
  options.handshakeTime = 200ms;
  listen(options);
  std::vector<std::unique_ptr<RawPeer>> half;
  Buffer hello;
  RawPeer::appendHello(hello);
  ASSERT_TRUE(hello.resize(FrameHeaderSize + 5));
  for (int i = 0; i < 20; ++i) {
    half.push_back(std::make_unique<RawPeer>(address()));
    if (i % 2 == 0)
      continue;
    ASSERT_TRUE(half.back()->send(hello));
  }
  const auto peer = greeted();
  idleUntil([&] { return statistics().overLimit == 20; });
  for (const auto &one : half)
    EXPECT_FALSE(one->listen());
  EXPECT_EQ(half[1]->verdict().code(), Code::DeadlineExceeded) << half[1]->verdict().toString();
  EXPECT_TRUE(peer->listen());
  EXPECT_TRUE(peer->verdict());
}

TEST_P(Limits, EventsOfEpisodesGiveWayAndTheConnectionLives) {
  listen(serving(Sum));
  Buffer bytes;
  RawPeer::appendOpen(bytes, 1, Sum);
  constexpr int Rewards = 1000, Kept = 256;
  for (int i = 0; i < Rewards; ++i) {
    Buffer reward;
    ASSERT_TRUE(encode(RewardMessage{double(i)}, reward));
    RawPeer::append(bytes, FrameKind::Reward, 1, 0, reward.span());
  }
  const auto peer = std::make_unique<RawPeer>(address());
  Buffer all;
  RawPeer::appendHello(all);
  ASSERT_TRUE(all.append(bytes.data(), bytes.size()));
  // The first event keeps the policy while the rest arrives: the helper thread reads it.
  std::thread sender([&] { EXPECT_TRUE(peer->send(all)); });
  Expected<Event> first = server_->next(Deadline::after(20s));
  ASSERT_TRUE(first);
  EXPECT_EQ(first->reward(), 0);
  sender.join();
  const Deadline deadline = Deadline::after(60s);
  constexpr uint64_t Dropped = Rewards - 1 - Kept;
  while (statistics().eventsDropped < Dropped && !deadline.hasPassed())
    std::this_thread::yield();
  double next = -1;
  int taken = 0;
  while (Expected<Event> event = server_->next(Deadline::after(50ms))) {
    EXPECT_GT(event->reward(), next);
    next = event->reward();
    ++taken;
  }
  EXPECT_EQ(next, Rewards - 1);
  EXPECT_EQ(taken, Kept);
  EXPECT_EQ(statistics().eventsDropped, Dropped);
  EXPECT_TRUE(peer->listen());
  EXPECT_EQ(statistics().overLimit, 0u);
}

TEST_P(Limits, AnEventKeepsItsContext) {
  listen(serving(Sum));
  Buffer bytes;
  RawPeer::appendOpen(bytes, 1, Sum);
  for (const char letter : {'a', 'b', 'c'})
    RawPeer::appendMessage(bytes, FrameKind::EpisodeBegin, 1,
                           EpisodeBegin{std::string(100, letter), std::string(1000, letter)});
  RawPeer peer(address());
  Buffer all;
  RawPeer::appendHello(all);
  ASSERT_TRUE(all.append(bytes.data(), bytes.size()));
  ASSERT_TRUE(peer.send(all));
  std::vector<Event> events;
  for (int i = 0; i < 3; ++i) {
    Expected<Event> event = server_->next(Deadline::after(20s));
    ASSERT_TRUE(event);
    events.push_back(std::move(*event));
  }
  peer.hangUp();
  const Expected<Event> end = server_->next(Deadline::after(20s));
  ASSERT_TRUE(end);
  EXPECT_EQ(end->kind(), EventKind::EpisodeEnd);
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(events[i].context().episode, std::string(100, static_cast<char>('a' + i)));
    EXPECT_EQ(events[i].context().unit, std::string(1000, static_cast<char>('a' + i)));
  }
}

TEST_P(Limits, StreamsThatComeAndGoLeaveNothingWithAnEnvironment) {
  ServerOptions options = serving(Sum);
  options.environment = true;
  listen(options);
  const auto peer = std::make_unique<RawPeer>(address());
  Buffer bytes;
  RawPeer::appendHello(bytes);
  constexpr uint32_t Pairs = 5000;
  for (uint32_t i = 1; i <= Pairs; ++i) {
    RawPeer::appendOpen(bytes, i, Sum);
    RawPeer::append(bytes, FrameKind::CloseStream, i, 0);
  }
  std::thread sender([&] { EXPECT_TRUE(peer->send(bytes)); });
  // The policy is busy with the first, and the helper reads the rest.
  const Expected<Event> first = server_->next(Deadline::after(20s));
  ASSERT_TRUE(first);
  const Deadline deadline = Deadline::after(60s);
  while (statistics().streams < Pairs && !deadline.hasPassed())
    std::this_thread::yield();
  sender.join();
  EXPECT_EQ(statistics().streams, Pairs);
  EXPECT_LT(statistics().bytesKept, 200'000u);
  int told = 0;
  while (Expected<Event> event = server_->next(Deadline::after(20ms)))
    ++told;
  EXPECT_LE(told, 4);
  EXPECT_EQ(statistics().overLimit, 0u);
}

TEST_P(Limits, AStreamOfTooManyTensorsIsRefused) {
  listen(ServerOptions());
  Signature many = Sum;
  for (int i = 0; i < 1023; ++i)
    many.inputs.push_back(TensorSpec::of<float>("x" + std::to_string(i)));
  Buffer open;
  RawPeer::appendOpen(open, 1, many);
  const auto peer = greeted(open);
  idleUntil([&] {
    peer->listen();
    return peer->count(FrameKind::Error) == 1;
  });
  EXPECT_NE(peer->frames.back().payload.find("the limit is 1024"), std::string::npos);
  EXPECT_EQ(peer->frames.back().header.stream, 1u);
  EXPECT_TRUE(peer->listen());
}

TEST_P(Limits, WhoTakesNoWelcomeIsClosedAtOnce) {
  listen(serving(Sum));
  for (const uint64_t limit : {1, 17, 100}) {
    Hello hello;
    hello.serdes = "bitstream";
    hello.maxMessage = limit;
    Buffer bytes;
    RawPeer::appendMessage(bytes, FrameKind::Hello, 0, hello);
    RawPeer peer(address());
    ASSERT_TRUE(peer.send(bytes));
    idleUntil([&] { return !peer.listen(); });
    EXPECT_EQ(peer.count(FrameKind::Welcome), 0u);
    for (const RawPeer::Frame &frame : peer.frames)
      EXPECT_LE(frame.payload.size(), limit);
    if (limit < 100)
      continue;
    EXPECT_EQ(peer.verdict().code(), Code::Protocol) << peer.verdict().toString();
    EXPECT_NE(peer.verdict().message().find("accepts at most 100"), std::string::npos);
  }
  EXPECT_EQ(statistics().refused, 3u);
  EXPECT_TRUE(greeted()->listen()); // 0: of any length
}

// ---- what is served by default ------------------------------------------------------------------

TEST_P(Limits, AThousandStreamsWithContextsAreServedByDefault) {
  listen(serving(Sum));
  constexpr uint32_t Streams = 1000;
  const Buffer payload = sumRequest();
  Buffer bytes;
  RawPeer::appendHello(bytes);
  for (uint32_t i = 1; i <= Streams; ++i)
    RawPeer::appendOpen(bytes, i, Sum, std::string(1024, 'c'));
  for (uint32_t i = 1; i <= Streams; ++i)
    RawPeer::append(bytes, FrameKind::Request, i, 1, payload.span());
  const auto peer = std::make_unique<RawPeer>(address());
  std::thread sender([&] { EXPECT_TRUE(peer->send(bytes)); });
  for (uint32_t i = 1; i <= Streams; ++i) {
    Expected<Event> event = server_->next(Deadline::after(20s));
    ASSERT_TRUE(event) << event.status().toString();
    EXPECT_EQ(event->context().unit.size(), 1024u);
    EXPECT_TRUE(event->reply());
  }
  sender.join();
  idleUntil([&] {
    peer->listen();
    return peer->count(FrameKind::Reply) == Streams;
  });
}

TEST_P(Limits, ALargeTensorIsServedByDefault) {
  const Signature large{{TensorSpec::of<float>("x", {16 << 20})},
                        {TensorSpec::of<float>("y", {16 << 20})}};
  ServerThread server(address(), serving(large), [](Event &event) {
    if (event.kind() != EventKind::Request)
      return;
    event.output(0).as<float>()[5] = event.input(0).as<float>()[7];
    EXPECT_TRUE(event.reply());
  });
  Runner runner = open(address(), large, within(60s));
  for (const float value : {3.0F, 4.0F}) {
    runner.input<float>("x")[7] = value;
    ASSERT_TRUE(runner.evaluate()) << runner.status().toString();
    EXPECT_EQ(runner.output<float>("y")[5], value);
  }
}

TEST_P(Limits, FiveHundredCompilersAreServedByDefault) {
  rlimit files{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &files), 0);
  files.rlim_cur = files.rlim_max;
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &files), 0);
  listen(serving(Sum));
  Buffer bytes;
  RawPeer::appendHello(bytes);
  RawPeer::appendOpen(bytes, 1, Sum);
  std::vector<std::unique_ptr<RawPeer>> peers;
  for (int i = 0; i < 500; ++i) {
    peers.push_back(std::make_unique<RawPeer>(address()));
    ASSERT_TRUE(peers.back()->send(bytes));
    if (i % 50 == 49)
      idleUntil([&] { return statistics().streams == static_cast<uint64_t>(i) + 1; });
  }
  for (const auto &peer : peers)
    EXPECT_NE(peer->await(FrameKind::Welcome), nullptr);
}

TEST_P(Limits, ACompilerForWhichThereIsNoDescriptorIsToldSo) {
  listen(serving(Sum));
  std::vector<std::unique_ptr<RawPeer>> peers;
  for (int i = 0; i < 3; ++i)
    peers.push_back(std::make_unique<RawPeer>(address()));
  {
    const FewDescriptors few(1);
    const Descriptor last(::dup(0));
    for (const auto &peer : peers) {
      idleUntil([&] { return !peer->listen() || peer->count(FrameKind::Busy) == 1; });
      ASSERT_EQ(peer->count(FrameKind::Busy), 1U);
      EXPECT_NE(peer->frames[0].payload.find("no file descriptor left"), std::string::npos);
    }
  }
  EXPECT_EQ(statistics().refused, 3U);
  (void)greeted(); // and there is one again
}

// ---- beginning ----------------------------------------------------------------------------------

TEST(Beginning, OfManyServersAtOnePathExactlyOneListens) {
  for (const char *kind : {"unix", "shm", "pipe", "rendezvous"})
    for (int round = 0; round < 25; ++round) {
      TemporaryFolder folder;
      const std::string uri = addressOf(kind, folder);
      if (round % 2 && std::string(kind) != "rendezvous" && std::string(kind) != "pipe") {
        // A socket that a killed server has left.
        sockaddr_un address{};
        address.sun_family = AF_UNIX;
        (folder / "s").copy(address.sun_path, sizeof address.sun_path - 1);
        const Descriptor dead(::socket(AF_UNIX, SOCK_STREAM, 0));
        ASSERT_EQ(::bind(dead.get(), reinterpret_cast<sockaddr *>(&address), sizeof address), 0);
      }
      constexpr int Many = 8;
      std::vector<std::thread> threads;
      std::vector<std::optional<Expected<Server>>> servers(Many);
      std::atomic<int> ready{0};
      for (int i = 0; i < Many; ++i)
        threads.emplace_back([&, i] {
          ++ready;
          while (ready < Many)
            std::this_thread::yield();
          servers[static_cast<size_t>(i)].emplace(Server::listen(uri, serving(Sum)));
        });
      for (std::thread &thread : threads)
        thread.join();
      int listening = 0;
      for (const auto &server : servers) {
        listening += static_cast<bool>(*server);
        if (!*server) {
          EXPECT_EQ(server->status().code(), Code::Busy) << server->status().toString();
        }
      }
      EXPECT_EQ(listening, 1) << uri;
    }
}

TEST(Beginning, WithoutAThreadIsAStatus) {
  TemporaryFolder folder;
  ASSERT_EQ(::chmod(folder.path().c_str(), 0777), 0);
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    if (::geteuid() == 0 && ::setresuid(65534, 65534, 65534) != 0) // root has no such limit
      ::_exit(2);
    const rlimit none{0, 0};
    ::setrlimit(RLIMIT_NPROC, &none);
    const Expected<Server> server = Server::listen("unix:" + folder / "s", serving(Sum));
    ::_exit(server.status().code() == Code::LimitExceeded ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
}

} // namespace
} // namespace mlbridge
