// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "transport/handover.h"

#include <gtest/gtest.h>

namespace mlbridge {
namespace {

class HandoverTest : public ::testing::Test {
protected:
  struct Machine {
    HandoverTest &test;
    Handover::Clock::time_point now() { return test.now; }
    void yield() { test.now += test.yieldTakes; }
    void pause() { test.now += std::chrono::nanoseconds(50); }
  };
  /// Whether it was tried at all.
  bool yields(bool finds) {
    const auto before = now;
    const bool found = handover.yieldUntil([&] { return finds; }, Machine{*this});
    EXPECT_EQ(found, finds && now != before);
    return now != before;
  }

  Duration yieldTakes = std::chrono::microseconds(1);
  Handover handover;
  Handover::Clock::time_point now{std::chrono::hours(1)};
};

TEST_F(HandoverTest, GoesOnWhileItWorks) {
  for (int i = 0; i < 1000; ++i) {
    ASSERT_TRUE(yields(true));
    ASSERT_TRUE(handover.spinUntil([] { return true; }, Machine{*this}));
  }
}

TEST_F(HandoverTest, TriesSeldomAndBrieflyWhereItFindsNothing) {
  const auto start = now;
  int yielded = 0;
  constexpr int Waits = 100'000;
  for (int i = 0; i < Waits; ++i) {
    yielded += yields(false);
    ASSERT_FALSE(handover.spinUntil([] { return false; }, Machine{*this}));
  }
  EXPECT_GT(yielded, Attempt::MostFailures);
  EXPECT_LT(yielded, Waits / 1000);
  EXPECT_LT(now - start, yielded * 2 * (Handover::Patience + Handover::Spin));
}

TEST_F(HandoverTest, BearsOneFailureAmongMany) {
  int yielded = 0;
  for (int i = 0; i < 1000; ++i)
    yielded += yields(i % 100 != 0);
  EXPECT_GT(yielded, 950);
}

TEST_F(HandoverTest, LeavesItForLongWhenOthersRanMeanwhile) {
  yieldTakes = std::chrono::milliseconds(3);
  EXPECT_TRUE(yields(true));
  yieldTakes = std::chrono::microseconds(1);
  int waits = 1;
  while (!yields(true))
    ++waits;
  EXPECT_EQ(waits, 1 << Handover::WeightOfLongYield);
}

} // namespace
} // namespace mlbridge
