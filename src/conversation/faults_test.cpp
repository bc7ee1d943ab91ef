// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A Runner against servers that misbehave, written with plain system calls: in each case a clear
// status within the deadline, and never a wrong answer.
#include "testing/fake_server.h"

#include <csignal>

namespace mlbridge {
namespace {

using namespace testing;
using namespace std::chrono_literals;

constexpr Duration Short = 200ms;

class Faults : public ::testing::TestWithParam<const char *> {
protected:
  // The fake servers write to FIFOs that nobody reads any more.
  static void SetUpTestSuite() { ::signal(SIGPIPE, SIG_IGN); }

  /// The result of one evaluation; the answer must never be taken for right.
  Status ask(Script script, Duration deadline = Short) {
    const FakeServer server(GetParam(), std::move(script));
    Runner runner = open(server.uri(), OneNumber, within(deadline));
    Expected<int64_t> answer = runner.evaluate<int64_t>();
    EXPECT_FALSE(answer) << "took " << *answer << " for an answer";
    EXPECT_EQ(runner.evaluateOr<int64_t>([] { return int64_t(-7); }), -7);
    EXPECT_FALSE(answer.status().message().empty());
    return answer.status();
  }
};

TEST_P(Faults, ClosesInsteadOfAWelcome) {
  const Code code = ask([](const Peer &) {}).code();
  EXPECT_TRUE(code == Code::Closed || code == Code::Unavailable) << name(code);
}

TEST_P(Faults, NeverWelcomes) {
  EXPECT_EQ(ask([](const Peer &peer) { peer.drain(); }).code(), Code::DeadlineExceeded);
}

TEST_P(Faults, SpeaksSomethingElse) {
  const Status status = ask([](const Peer &peer) {
    const char text[] = "220 mail.example ESMTP ready, please go on and say hello\r\n";
    peer.write(Bytes(text, text + sizeof text));
    peer.drain();
  });
  EXPECT_EQ(status.code(), Code::Protocol) << status.toString();
}

TEST_P(Faults, SpeaksAnotherVersion) {
  const Status status = ask([](const Peer &peer) {
    const auto hello = peer.read();
    Bytes welcome = welcomeTo(hello->second);
    welcome[FrameHeaderSize + 8] = 9;
    peer.write(welcome);
    peer.drain();
  });
  EXPECT_EQ(status.code(), Code::Protocol);
  EXPECT_NE(status.message().find("version 9"), std::string::npos) << status.message();
}

TEST_P(Faults, RefusesWithAReason) {
  const Status status = ask([](const Peer &peer) {
    (void)peer.read();
    Buffer text;
    EXPECT_TRUE(encode(Status(Code::Unsupported, "no such serdes here"), text));
    peer.write(frameOf(FrameKind::Error, text));
    peer.drain();
  });
  EXPECT_EQ(status.code(), Code::Unsupported);
  EXPECT_NE(status.message().find("no such serdes here"), std::string::npos) << status.message();
}

TEST_P(Faults, AWelcomeForSomebodyElseIsIgnored) {
  EXPECT_EQ(ask([](const Peer &peer) {
              const auto hello = peer.read();
              Bytes welcome = welcomeTo(hello->second);
              welcome[FrameHeaderSize + 12] ^= 1; // the nonce
              peer.write(welcome);
              peer.drain();
            }).code(),
            Code::DeadlineExceeded);
}

TEST_P(Faults, NeverAnswers) {
  EXPECT_EQ(ask(afterFirstRequest([](const Peer &peer) { peer.drain(); })).code(),
            Code::DeadlineExceeded);
}

TEST_P(Faults, EndsAtEveryByteOfAReply) {
  const Bytes reply = replyOf(42, 1);
  for (size_t cut = 0; cut < reply.size(); ++cut) {
    const Status status = ask(afterFirstRequest([&](const Peer &peer) {
                                peer.write(Bytes(reply.begin(), reply.begin() + cut));
                              }),
                              20s);
    EXPECT_EQ(status.code(), Code::Closed) << "cut at " << cut << ": " << status.toString();
  }
}

TEST_P(Faults, StallsInTheMiddleOfAReply) {
  const Bytes reply = replyOf(42, 1);
  for (const size_t cut : {size_t(1), FrameHeaderSize, reply.size() - 1})
    EXPECT_EQ(ask(afterFirstRequest([&](const Peer &peer) {
                peer.write(Bytes(reply.begin(), reply.begin() + cut));
                peer.drain();
              })).code(),
              Code::DeadlineExceeded);
}

TEST_P(Faults, StatesAHostileLength) {
  for (const uint64_t length : {uint64_t(1) << 60, UINT64_MAX, uint64_t(1) << 32}) {
    const Status status = ask(afterFirstRequest([&](const Peer &peer) {
      FrameHeader header;
      header.kind = FrameKind::Reply;
      header.stream = 1;
      header.request = 1;
      header.length = length;
      Bytes bytes(FrameHeaderSize);
      encode(header, bytes.data());
      peer.write(bytes);
      peer.drain();
    }));
    EXPECT_EQ(status.code(), Code::LimitExceeded) << status.toString();
  }
}

TEST_P(Faults, AnswersTooLittleOrTooMuch) {
  for (const size_t size : {size_t(0), size_t(7), size_t(9), size_t(4096)}) {
    const Status status = ask(afterFirstRequest([&](const Peer &peer) {
      Buffer payload;
      EXPECT_TRUE(payload.resize(size));
      std::fill_n(payload.data(), size, uint8_t{1}); // data() is null if there is none
      peer.write(frameOf(FrameKind::Reply, payload, 1, 1));
      peer.drain();
    }));
    EXPECT_EQ(status.code(), Code::Protocol) << status.toString();
    EXPECT_NE(status.message().find(std::to_string(size)), std::string::npos);
  }
}

TEST_P(Faults, AnswersAnotherQuestion) {
  EXPECT_EQ(ask(afterFirstRequest([](const Peer &peer) {
              peer.write(replyOf(1, 2));
              peer.write(replyOf(2, 0));
              peer.write(replyOf(3, 1, 77));
              peer.drain();
            })).code(),
            Code::DeadlineExceeded);
}

TEST_P(Faults, AnswersWithADamagedHeader) {
  EXPECT_EQ(ask(afterFirstRequest([](const Peer &peer) {
              Bytes reply = replyOf(42, 1);
              reply[24] ^= 4;
              peer.write(reply);
              peer.drain();
            })).code(),
            Code::Protocol);
}

TEST_P(Faults, TalksWithoutEndAndNeverAnswers) {
  EXPECT_EQ(ask(afterFirstRequest([](const Peer &peer) {
              Bytes noise;
              for (int i = 0; i < 100; ++i) {
                const Bytes one = frameOf(FrameKind::StreamOpened, Buffer(), 1);
                noise.insert(noise.end(), one.begin(), one.end());
              }
              while (!peer.hasInput()) // a cancellation, or the end
                peer.write(noise);
            })).code(),
            Code::DeadlineExceeded);
}

TEST_P(Faults, SaysGoodbye) {
  const Status status = ask(afterFirstRequest([](const Peer &peer) {
    Buffer text;
    EXPECT_TRUE(encode(ByeMessage{"maintenance"}, text));
    peer.write(frameOf(FrameKind::Bye, text));
    peer.drain();
  }));
  EXPECT_EQ(status.code(), Code::Closed);
  EXPECT_NE(status.message().find("maintenance"), std::string::npos) << status.message();
}

TEST_P(Faults, StatesMoreThanAKindMayHave) {
  for (const auto &[kind, size] : {std::pair(FrameKind::Ping, 65),
                                   {FrameKind::Statistics, 2 << 20},
                                   {FrameKind::Turn, 17 << 20}}) {
    const Status status = ask(afterFirstRequest([kind = kind, size = size](const Peer &peer) {
      FrameHeader header;
      header.kind = kind;
      header.length = static_cast<uint64_t>(size);
      Bytes bytes(FrameHeaderSize);
      encode(header, bytes.data());
      peer.write(bytes);
      peer.drain();
    }));
    EXPECT_EQ(status.code(), Code::LimitExceeded) << status.toString();
    EXPECT_NE(status.message().find(name(kind)), std::string::npos) << status.message();
  }
}

TEST_P(Faults, HandsOnATextThatIsVeryLong) {
  const Status status =
      ask(afterFirstRequest([](const Peer &peer) {
            Buffer text;
            EXPECT_TRUE(encode(Status(Code::PolicyFailed, std::string(7 << 20, 'x')), text));
            peer.write(frameOf(FrameKind::Error, text, 1, 1));
            peer.drain();
          }),
          3s);
  EXPECT_EQ(status.code(), Code::PolicyFailed);
  EXPECT_LT(status.message().size(), 5000u);
  EXPECT_NE(status.message().find("cut, it has 7340032 bytes"), std::string::npos);
}

TEST_P(Faults, SendsAKindThatNobodyKnows) {
  EXPECT_EQ(ask(afterFirstRequest([](const Peer &peer) {
              peer.write(frameOf(static_cast<FrameKind>(777), Buffer()));
              peer.drain();
            })).code(),
            Code::Protocol);
}

/// Strange but allowed frames, before a right answer.
TEST_P(Faults, StrangeButAllowedThingsDoNotHurt) {
  const FakeServer server(
      GetParam(), afterFirstRequest([](const Peer &peer) {
        peer.write(frameOf(static_cast<FrameKind>(777), Buffer(), 0, 0, FlagSkippable));
        peer.write(frameOf(FrameKind::StreamOpened, Buffer(), 1));
        peer.write(replyOf(13, 99)); // late, of no request
        peer.write(frameOf(FrameKind::Ping, Buffer(), 0, 5));
        EXPECT_EQ(peer.read()->first.kind, FrameKind::Pong);
        for (const uint8_t byte : replyOf(42, 1)) // byte by byte
          peer.write({byte});
        peer.drain();
      }));
  Runner runner = open(server.uri(), OneNumber, within(20s));
  Expected<int64_t> answer = runner.evaluate<int64_t>();
  ASSERT_TRUE(answer) << answer.status().toString();
  EXPECT_EQ(*answer, 42);
}

TEST_P(Faults, IsAskedToBeDrivenAndSaysThatItCannot) {
  const FakeServer server(GetParam(), afterFirstRequest([](const Peer &peer) {
                            Buffer reset;
                            EXPECT_TRUE(encode(ResetMessage{"b.c", 1}, reset));
                            peer.write(frameOf(FrameKind::Reset, reset, 1, 8));
                            const auto error = peer.read();
                            ASSERT_TRUE(error);
                            EXPECT_EQ(error->first.kind, FrameKind::Error);
                            EXPECT_EQ(error->first.request, 8u);
                            peer.write(replyOf(42, 1));
                            peer.drain();
                          }));
  Runner runner = open(server.uri(), OneNumber, within(20s));
  EXPECT_TRUE(runner.evaluate<int64_t>());
}

TEST_P(Faults, DoesNotReadALargeRequest) {
  const Signature large{{TensorSpec::of<float>("x", {16 << 20})}, {TensorSpec::of<int64_t>("y")}};
  const FakeServer server(GetParam(), [&](const Peer &peer) {
    const auto hello = peer.read();
    Welcome welcome;
    welcome.nonce = decode<Hello>({hello->second.data(), hello->second.size()})->nonce;
    welcome.maxMessage = uint64_t(1) << 30;
    welcome.serdes = "bitstream";
    Buffer payload;
    EXPECT_TRUE(encode(welcome, payload));
    peer.write(frameOf(FrameKind::Welcome, payload));
    pollfd gone{peer.out, 0, 0}; // hung up
    ::poll(&gone, 1, -1);
  });
  Runner runner = open(server.uri(), large, within(Short));
  EXPECT_FALSE(runner.evaluate<int64_t>());
  EXPECT_FALSE(runner.evaluate<int64_t>());
}

TEST_P(Faults, AModelOpenedForEachModuleWaitsOneDeadlineAltogether) {
  const FakeServer server(GetParam(), [](const Peer &peer) { peer.drain(); });
  OpenOptions options = within(Short);
  options.sharedBudget = true;
  EXPECT_EQ(Model::open(server.uri(), options).status().code(), Code::DeadlineExceeded);
  for (int module = 0; module < 100; ++module)
    EXPECT_EQ(Model::open(server.uri(), options).status().code(), Code::Unavailable);
  // A model that does not share it may ask again.
  EXPECT_NE(Model::open(server.uri(), within(Short)).status().message().find("server"),
            std::string::npos);
}

INSTANTIATE_TEST_SUITE_P(All, Faults, ::testing::Values("unix", "pipe", "shm"),
                         [](const auto &info) { return std::string(info.param); });

} // namespace
} // namespace mlbridge
