// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Whom a batch waits for.
#include "server/session.h"
#include "testing/sum_server.h"

#include <future>

namespace mlbridge {
namespace {

using namespace testing;
using namespace std::chrono_literals;

/// A connection that asks and is answered, in microseconds.
struct Clock {
  RequestPace pace;
  RequestPace::Time now{1s};
  void ask(int64_t after, Duration patience = 1ms) {
    now += after * 1us;
    pace.requested(now, patience);
  }
  void answer() { pace.answered(now += 5us); }
};

TEST(Pace, IsAwaitedUntilItHasAsked) {
  Clock c;
  c.pace.begin(c.now);
  for (int i = 0; i < 3; ++i) {
    EXPECT_TRUE(c.pace.isAwaited());
    c.ask(50);
    EXPECT_FALSE(c.pace.isAwaited());
    EXPECT_EQ(c.pace.open(), 1u);
    c.answer();
  }
}

TEST(Pace, ManyThreadsAreAwaitedOnceTheyHaveAskedAtOnce) {
  Clock c;
  c.pace.begin(c.now);
  c.ask(0);
  EXPECT_FALSE(c.pace.isAwaited()) << "one thread may have several Runners";
  c.ask(0);
  c.ask(0);
  c.answer();
  EXPECT_TRUE(c.pace.isAwaited());
  c.pace.recordTimeout();
  EXPECT_FALSE(c.pace.isAwaited()) << "two threads are left";
  c.answer();
  c.answer();
  c.ask(50);
  EXPECT_TRUE(c.pace.isAwaited()) << "the second";
}

TEST(Pace, WhoIsWaitedForInVainIsSoOnlySeldom) {
  Clock c;
  c.pace.begin(c.now);
  c.ask(50);
  c.answer();
  int asked = 0, vain = 0;
  for (; asked < 4000; ++asked) { // always after another one's turn, which takes as long as its own
    if (c.pace.isAwaited()) {
      c.pace.recordTimeout();
      c.now += 1ms;
      ++vain;
    }
    c.ask(100);
    c.answer();
  }
  EXPECT_LE(vain, 14);
  EXPECT_GE(vain, 5);
  // A slow connection is never prompt.
  Clock slow;
  slow.pace.begin(slow.now);
  slow.pace.recordTimeout();
  for (int i = 0; i < 100; ++i) {
    slow.ask(5000);
    slow.answer();
    EXPECT_FALSE(slow.pace.isAwaited());
  }
  slow.ask(10);
  slow.answer();
  EXPECT_TRUE(slow.pace.isAwaited()) << "it has become prompt";
}

class BatchOver : public ::testing::TestWithParam<const char *> {
protected:
  void SetUp() override {
    Expected<Server> listening = Server::listen(addressOf(GetParam(), folder_), serving(Sum));
    ASSERT_TRUE(listening) << listening.status().toString();
    server_ = std::make_unique<Server>(std::move(*listening));
  }
  Model connect() {
    auto opened = std::async(std::launch::async, [this] {
      Model model = Model::open(server_->uri(), within(60s));
      (void)model.bind(Sum);
      return model;
    });
    while (opened.wait_for(0s) != std::future_status::ready)
      (void)server_->next(Deadline::after(1ms)); // which shakes hands
    return opened.get();
  }
  static std::future<Status> ask(Runner &runner) {
    return std::async(std::launch::async, [&runner] { return runner.evaluate(); });
  }
  /// The next request; then that no other is waited for.
  Event first() {
    Expected<Event> event = server_->next(Deadline::after(60s));
    EXPECT_TRUE(event) << event.status().toString();
    return event ? std::move(*event) : Event();
  }
  Event other() {
    Expected<Event> event = server_->nextOfBatch(24h);
    EXPECT_TRUE(event) << event.status().toString();
    return event ? std::move(*event) : Event();
  }
  void expectComplete(Duration maxWait = 24h) {
    const Expected<Event> event = server_->nextOfBatch(maxWait);
    EXPECT_EQ(event.status().code(), Code::DeadlineExceeded) << event.status().toString();
  }
  static void answer(Event event, std::future<Status> asked) {
    answerSum(event);
    const Status status = asked.get();
    EXPECT_TRUE(status) << status.toString();
  }

  TemporaryFolder folder_;
  std::unique_ptr<Server> server_;
};

TEST_P(BatchOver, NobodyIsWaitedForWhenAllHaveAsked) {
  const Model model = connect();
  Runner one = model.newRunner(), other = model.newRunner();
  for (Runner *runner : {&one, &other, &one, &one, &other}) { // one after another
    auto asked = ask(*runner);
    Event event = first();
    expectComplete();
    answer(std::move(event), std::move(asked));
  }
}

TEST_P(BatchOver, WhoIsConnectedAndHasNotAskedIsWaitedFor) {
  const Model a = connect(), b = connect(), c = connect();
  Runner ra = a.newRunner(), rb = b.newRunner(), rc = c.newRunner();
  for (int i = 0; i < 3; ++i) {
    auto askedA = ask(ra);
    Event eventA = first();
    auto askedB = ask(rb);
    Event eventB = other();
    auto askedC = ask(rc);
    Event eventC = other();
    expectComplete();
    answer(std::move(eventB), std::move(askedB));
    answer(std::move(eventA), std::move(askedA));
    answer(std::move(eventC), std::move(askedC));
  }
}

TEST_P(BatchOver, ThreadsOfOneConnectionAreWaitedForOnceTheyHaveAskedAtOnce) {
  const Model model = connect();
  Runner one = model.newRunner(), two = model.newRunner();
  for (int i = 0; i < 3; ++i) {
    auto askedOne = ask(one);
    Event eventOne = first();
    auto askedTwo = ask(two);
    Event eventTwo = i == 0 ? first() : other();
    expectComplete();
    answer(std::move(eventOne), std::move(askedOne));
    answer(std::move(eventTwo), std::move(askedTwo));
  }
}

TEST_P(BatchOver, WhoIsIdleIsWaitedForOnce) {
  const Model model = connect(), idle = connect();
  Runner runner = model.newRunner(), never = idle.newRunner();
  for (int i = 0; i < 4; ++i) {
    auto asked = ask(runner);
    Event event = first();
    expectComplete(i == 0 ? Duration(1ms) : Duration(24h));
    answer(std::move(event), std::move(asked));
  }
  auto asked = ask(never);
  answer(first(), std::move(asked));
}

TEST_P(BatchOver, WhoHasGoneIsNotWaitedFor) {
  const Model model = connect();
  Runner runner = model.newRunner();
  auto gone = std::make_unique<Model>(connect());
  Runner theirs = gone->newRunner();
  auto asked = ask(runner);
  Event event = first();
  auto waiting = std::async(std::launch::async, [&] {
    theirs = Runner();
    gone.reset();
  });
  expectComplete();
  waiting.get();
  answer(std::move(event), std::move(asked));
}

INSTANTIATE_TEST_SUITE_P(All, BatchOver, ::testing::Values("unix", "shm", "rendezvous"));

} // namespace
} // namespace mlbridge
