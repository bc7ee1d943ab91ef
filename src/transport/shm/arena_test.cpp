// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Large tensors in shared memory, which are not sent: right answers, what is held stays, and a
// compiler can say and do there what it likes.
#include "conversation/frame.h"
#include "conversation/messages.h"
#include "testing/sum_server.h"
#include "transport/builtin.h"
#include "transport/shm/memory.h"

#include <mlbridge/model.h>

#include <gtest/gtest.h>

#include <future>
#include <sys/resource.h>
#include <sys/wait.h>

namespace mlbridge {
namespace {

using namespace testing;
using namespace std::chrono_literals;

constexpr int64_t Many = 64 * 1024;
const Signature Large{{TensorSpec::of<float>("x", {Many}), TensorSpec::of<int64_t>("k")},
                      {TensorSpec::of<double>("sum"), TensorSpec::of<int64_t>("twice")}};
const Signature Changing{{TensorSpec::of<int64_t>("k"), TensorSpec::of<float>("x", {Dynamic})},
                         {TensorSpec::of<double>("sum"), TensorSpec::of<int64_t>("twice")}};

/// The sum of all numbers in "x", twice "k".
void answer(Event &event) {
  if (event.kind() != EventKind::Request)
    return;
  const Signature &signature = event.signature();
  const Span<float> x = event.input(signature.findInput("x")).as<float>();
  event.output(0).as<double>()[0] = std::accumulate(x.begin(), x.end(), 0.0);
  event.output(1).as<int64_t>()[0] = 2 * event.input(signature.findInput("k")).as<int64_t>()[0];
  EXPECT_TRUE(event.reply());
}

class InMemory : public ::testing::Test {
protected:
  const TemporaryFolder folder_;
  const std::string uri_ = "shm:" + folder_ / "s";
};

TEST_F(InMemory, TensorsOfFixedShapeAreWrittenInPlaceAndNotSent) {
  ServerThread server(uri_, serving(Large), answer);
  Runner runner = open(uri_, Large, within(60s));
  const Span<float> x = runner.input<float>("x");
  ASSERT_EQ(x.size(), size_t(Many));
  EXPECT_EQ(x[0], 0);
  for (int64_t i = 0; i < 20; ++i) {
    x[static_cast<size_t>(i)] = 1;
    ASSERT_TRUE(runner.set("k", i));
    ASSERT_TRUE(runner.evaluate()) << runner.status().toString();
    EXPECT_EQ(runner.output<double>("sum")[0], static_cast<double>(i + 1));
    EXPECT_EQ(runner.output<int64_t>("twice")[0], 2 * i);
  }
  EXPECT_LT(server.server().statistics().bytesIn, 10'000u);
}

TEST_F(InMemory, TensorsThatChangeTheirShapeAreToo) {
  ServerThread server(uri_, serving(Changing), answer);
  Runner runner = open(uri_, Changing, within(60s));
  for (int64_t i = 0; i < 60; ++i) {
    const int64_t size = 4096 + (i * 7919) % 30 * 16384; // up and down
    Expected<Span<float>> x = runner.resize<float>("x", {size});
    ASSERT_TRUE(x);
    std::fill(x->begin(), x->end(), 0.0F);
    (*x)[static_cast<size_t>(size) - 1] = 5;
    ASSERT_TRUE(runner.set("k", i));
    ASSERT_TRUE(runner.evaluate()) << runner.status().toString();
    EXPECT_EQ(runner.output<double>("sum")[0], 5);
    EXPECT_EQ(runner.output<int64_t>("twice")[0], 2 * i);
  }
  EXPECT_LT(server.server().statistics().bytesIn, 100'000u);
}

TEST_F(InMemory, SmallOnesLogicalOnesAndTextGoAlong) {
  const Signature mixed{{TensorSpec::of<bool>("flags", {Many}), TensorSpec::of<std::string>("name"),
                         TensorSpec::of<uint8_t>("a", {Dynamic}), TensorSpec::of<float>("b", {3}),
                         TensorSpec::of<double>("c", {4096}), TensorSpec::of<float>("d", {Many}),
                         TensorSpec::of<float>("e", {Many}), TensorSpec::of<float>("f", {Many}),
                         TensorSpec::of<float>("g", {Many})},
                        {TensorSpec::of<double>("sum")}};
  const auto last = [](const TensorView &view, auto type) {
    return static_cast<double>(view.as<decltype(type)>()[view.count - 1]);
  };
  ServerThread server(uri_, serving(mixed), [&](Event &event) {
    double sum = event.input(0).as<bool>()[7] ? 1 : 0;
    sum += static_cast<double>(event.input(1).as<std::string>()[0].size());
    sum += last(event.input(2), uint8_t()) + last(event.input(3), 0.0F) + last(event.input(4), 0.0);
    for (size_t i = 5; i < 9; ++i)
      sum += last(event.input(i), 0.0F);
    event.output(0).as<double>()[0] = sum;
    EXPECT_TRUE(event.reply());
  });
  Runner runner = open(uri_, mixed, within(60s));
  for (int round = 0; round < 3; ++round) {
    runner.input<bool>("flags")[7] = true;
    ASSERT_TRUE(runner.set("name", "0123456789"));
    Expected<Span<uint8_t>> a = runner.resize<uint8_t>("a", {50'001});
    ASSERT_TRUE(a);
    (*a)[50'000] = 100;
    runner.input<float>("b")[2] = 1000;
    runner.input<double>("c")[4095] = 1e4;
    for (const char *name : {"d", "e", "f", "g"})
      runner.input<float>(name)[Many - 1] = 1e5;
    ASSERT_TRUE(runner.evaluate()) << runner.status().toString();
    EXPECT_EQ(runner.output<double>("sum")[0], 411111);
  }
}

TEST_F(InMemory, WhatThePolicyHoldsStaysAsItIs) {
  std::vector<std::pair<std::shared_ptr<void>, Span<float>>> held;
  ServerThread server(uri_, serving(Large), [&](Event &event) {
    held.emplace_back(event.holdInputs(), event.input(0).as<float>());
    answer(event);
  });
  Runner runner = open(uri_, Large, within(60s));
  const Span<float> x = runner.input<float>("x");
  constexpr int Rounds = 8;
  for (int i = 0; i < Rounds; ++i) {
    std::fill(x.begin(), x.end(), static_cast<float>(i));
    ASSERT_TRUE(runner.evaluate());
    EXPECT_EQ(runner.output<double>("sum")[0], static_cast<double>(i) * Many);
  }
  runner = Runner();
  server.stop();
  ASSERT_EQ(held.size(), size_t(Rounds));
  for (int i = 0; i < Rounds; ++i)
    EXPECT_EQ(std::count(held[i].second.begin(), held[i].second.end(), static_cast<float>(i)),
              Many);
}

TEST_F(InMemory, WhatWasHeldForAMomentDoesNotAnswerTheNextRequest) {
  ServerThread server(uri_, serving(Large), [&](Event &event) {
    const std::shared_ptr<void> held = event.holdInputs();
    answer(event);
  });
  Runner runner = open(uri_, Large, within(60s));
  for (int i = 0; i < 8; ++i) {
    runner.input<float>("x")[9] = static_cast<float>(i);
    ASSERT_TRUE(runner.evaluate());
    EXPECT_EQ(runner.output<double>("sum")[0], i);
  }
}

TEST_F(InMemory, InputsOutliveTheServerAndServeTheNext) {
  auto server = std::make_unique<ServerThread>(uri_, serving(Large), answer);
  Runner runner = open(uri_, Large, within(60s));
  const Span<float> x = runner.input<float>("x");
  x[3] = 7;
  ASSERT_TRUE(runner.evaluate());
  server = nullptr;
  EXPECT_FALSE(runner.evaluate());
  x[4] = 8;
  server = std::make_unique<ServerThread>(uri_, serving(Large), answer);
  const Deadline end = Deadline::after(60s);
  while (!runner.evaluate() && !end.hasPassed()) // until the circuit lets a call through
    std::this_thread::yield();
  EXPECT_EQ(runner.output<double>("sum")[0], 15);
}

TEST_F(InMemory, AChildProcessDoesNotWriteIntoItsParentsInputs) {
  ServerThread server(uri_, serving(Large), answer);
  Runner runner = open(uri_, Large, within(60s));
  const Span<float> x = runner.input<float>("x");
  x[0] = 1;
  const pid_t child = ::fork();
  if (child == 0) {
    const bool same = x[0] == 1;
    x[0] = 1000;
    ::_exit(same && x[0] == 1000 && !runner.evaluate() ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  ASSERT_TRUE(runner.evaluate()) << runner.status().toString();
  EXPECT_EQ(runner.output<double>("sum")[0], 1);
}

TEST_F(InMemory, WithoutRoomTensorsAreSent) {
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  rlimit low = before;
  low.rlim_cur = 16 << 20; // enough for the rings
  ServerThread server(uri_, serving(Large), answer);
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &low), 0);
  Runner runner = open(uri_, Large, within(60s));
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &before), 0);
  runner.input<float>("x")[5] = 3;
  ASSERT_TRUE(runner.evaluate()) << runner.status().toString();
  EXPECT_EQ(runner.output<double>("sum")[0], 3);
  EXPECT_GT(server.server().statistics().bytesIn, size_t(Many) * sizeof(float));
}

TEST_F(InMemory, MoreThanTheServerTakesIsRefused) {
  ServerOptions options = serving(Large);
  options.maxMessage = 100'000;
  ServerThread server(uri_, options, answer);
  Runner runner = open(uri_, Large, within(60s));
  EXPECT_EQ(runner.evaluate().code(), Code::LimitExceeded);
}

/// A compiler written by hand.
class Compiler {
public:
  explicit Compiler(const std::string &path) {
    Uri uri;
    uri.place = path;
    channel_ = std::move(*shmTransport().connect(uri, Deadline::never()));
    Hello hello;
    hello.serdes = "bitstream";
    hello.maxMessage = 1 << 20;
    Buffer payload;
    EXPECT_TRUE(encode(hello, payload));
    send(FrameKind::Hello, 0, 0, payload);
    EXPECT_EQ(read(), FrameKind::Welcome);
    OpenStream stream;
    stream.signature = Large;
    payload.clear();
    EXPECT_TRUE(encode(stream, payload));
    send(FrameKind::OpenStream, 1, 0, payload);
  }
  std::shared_ptr<Arena> arena() const { return channel_->arena(); }

  void send(FrameKind kind, uint32_t stream, uint16_t flags, const Buffer &payload) {
    FrameHeader header;
    header.kind = kind;
    header.flags = flags;
    header.stream = stream;
    header.request = kind == FrameKind::Request ? ++request_ : 0;
    header.length = payload.size();
    header.left = UINT64_MAX;
    uint8_t bytes[FrameHeaderSize];
    encode(header, bytes);
    const iovec parts[2] = {{bytes, sizeof bytes},
                            {const_cast<uint8_t *>(payload.data()), payload.size()}};
    EXPECT_EQ(*channel_->write(parts, 2), sizeof bytes + payload.size());
  }
  FrameKind read() {
    uint8_t bytes[FrameHeaderSize];
    fill(bytes, sizeof bytes);
    Expected<FrameHeader> header = decodeFrameHeader(bytes);
    payload_.resize(header->length);
    fill(payload_.data(), payload_.size());
    return header->kind;
  }
  /// The server's answer to a request whose tensors lie there.
  Status ask(const std::vector<MemoryPlace> &places, uint64_t count, size_t rest = 8) {
    Buffer payload;
    EXPECT_TRUE(payload.append(&count, sizeof count));
    for (const MemoryPlace &place : places)
      EXPECT_TRUE(payload.append(&place, sizeof place));
    const std::vector<uint8_t> zeros(rest);
    EXPECT_TRUE(payload.append(zeros.data(), rest));
    send(FrameKind::Request, 1, FlagInMemory, payload);
    return read() == FrameKind::Reply ? Status() : decodeError({payload_.data(), payload_.size()});
  }

private:
  void fill(uint8_t *to, size_t size) {
    while (size) {
      Expected<size_t> n = channel_->read(to, size);
      ASSERT_TRUE(n) << n.status().toString();
      to += *n;
      size -= *n;
      if (size && *n == 0)
        (void)channel_->wait({true, false}, Deadline::never());
    }
  }

  std::unique_ptr<Channel> channel_;
  std::vector<uint8_t> payload_;
  uint64_t request_ = 0;
};

TEST_F(InMemory, PlacesThatCannotBeAreRefused) {
  ServerThread server(uri_, serving(Large), answer);
  Compiler compiler(folder_ / "s");
  const std::shared_ptr<const ArenaSlot> slot = compiler.arena()->take(Many * sizeof(float));
  ASSERT_TRUE(slot);
  constexpr uint64_t Bytes = Many * sizeof(float), Step = ShmArena::LeastSlot;
  const MemoryPlace good{0, slot->offset, slot->capacity, Bytes};
  EXPECT_TRUE(compiler.ask({good}, 1));
  const std::vector<MemoryPlace> bad = {{8, slot->offset, slot->capacity, Bytes},
                                        {1, slot->offset, slot->capacity, Bytes},
                                        {~uint64_t(0), slot->offset, Bytes, Bytes},
                                        {0, slot->offset + 8, Bytes, Bytes},
                                        {0, 0, Bytes, Bytes},
                                        {0, Step, Bytes, Bytes},
                                        {0, uint64_t(1) << 40, Bytes, Bytes},
                                        {0, ~uint64_t(0) - Step + 1, Step, Step},
                                        {0, slot->offset, ~uint64_t(0), Bytes},
                                        {0, slot->offset, Bytes - Step, Bytes},
                                        {0, slot->offset, 0, 0},
                                        {0, slot->offset, Bytes, 0},
                                        {0, slot->offset, Bytes, Bytes - 4},
                                        {0, slot->offset, Bytes, Bytes - 1},
                                        {0, slot->offset, 2 * Bytes, Bytes + 4},
                                        {0, slot->offset, ~uint64_t(0) - Step + 1, 4},
                                        {0, slot->offset, uint64_t(1) << 28, Bytes},
                                        {0, slot->offset, uint64_t(1) << 40, 1 << 30}};
  for (const MemoryPlace &place : bad) {
    const Status status = compiler.ask({place}, 1);
    EXPECT_TRUE(status.code() == Code::Protocol || status.code() == Code::LimitExceeded)
        << place.position << " " << place.offset << " " << place.capacity << " " << place.bytes
        << ": " << status.toString();
  }
  EXPECT_EQ(compiler.ask({good, good}, 2).code(), Code::Protocol);
  EXPECT_EQ(compiler.ask({good}, 0).code(), Code::Protocol);
  EXPECT_EQ(compiler.ask({good}, 2).code(), Code::Protocol);
  EXPECT_EQ(compiler.ask({good}, ~uint64_t(0)).code(), Code::Protocol);
  EXPECT_EQ(compiler.ask({good}, uint64_t(1) << 59).code(), Code::Protocol);
  EXPECT_EQ(compiler.ask({good}, 1, 0).code(), Code::Protocol);
  EXPECT_EQ(compiler.ask({good}, 1, 16).code(), Code::Protocol);
  EXPECT_TRUE(compiler.ask({good}, 1));
}

TEST_F(InMemory, ACompilerThatWritesWhileItIsReadSpoilsItsOwnAnswerAlone) {
  ServerThread server(uri_, serving(Large), answer);
  Compiler compiler(folder_ / "s");
  const std::shared_ptr<const ArenaSlot> slot = compiler.arena()->take(Many * sizeof(float));
  std::atomic<bool> done{false};
  std::thread writer([&] {
    for (uint8_t i = 0; !done; ++i)
      std::fill_n(static_cast<volatile uint8_t *>(slot->data), slot->capacity, i);
  });
  for (int i = 0; i < 50; ++i)
    EXPECT_TRUE(compiler.ask({{0, slot->offset, slot->capacity, Many * sizeof(float)}}, 1));
  done = true;
  writer.join();
}

TEST_F(InMemory, EightThreadsAskAtOnce) {
  ServerThread server(uri_, serving(Changing), answer);
  Model model = Model::open(uri_, within(60s));
  ASSERT_TRUE(model.bind(Changing));
  std::vector<std::thread> threads;
  std::atomic<int> right{0};
  for (int64_t t = 0; t < 8; ++t)
    threads.emplace_back([&, t] {
      Runner runner = model.newRunner();
      for (int64_t i = 0; i < 50; ++i) {
        Expected<Span<float>> x = runner.resize<float>("x", {1000 + t * 3000 + i * 500});
        std::fill(x->begin(), x->end(), 0.0F);
        (*x)[500] = static_cast<float>(t * 100 + i);
        right += runner.evaluate() &&
                 runner.output<double>("sum")[0] == static_cast<double>(t * 100 + i);
      }
    });
  for (std::thread &thread : threads)
    thread.join();
  EXPECT_EQ(right, 8 * 50);
}

TEST(ShmArena, RoomThatIsGivenBackIsTakenAgain) {
  const auto arena = std::make_shared<ShmArena>(*SharedMemory::make());
  std::vector<std::shared_ptr<const ArenaSlot>> slots;
  EXPECT_FALSE(arena->take(SharedMemory::ArenaSize + 1));
  EXPECT_FALSE(arena->take(~size_t(0)));
  for (int round = 0; round < 2; ++round) {
    while (auto slot = arena->take(1 << 20)) {
      EXPECT_EQ(slot->offset % ShmArena::LeastSlot, 0u);
      slots.push_back(std::move(slot));
      if (slots.size() == 20) // all of it would take real memory
        break;
    }
    EXPECT_EQ(slots.size(), 20u);
    for (const size_t odd : {1, 3, 5})
      slots[odd].reset();
    slots.clear();
    const auto most = arena->take(SharedMemory::ArenaSize / 4);
    EXPECT_TRUE(most);
  }
}

} // namespace
} // namespace mlbridge
