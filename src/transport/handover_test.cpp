// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "transport/handover.h"

#include <gtest/gtest.h>

namespace mlbridge {
namespace {

class HandoverTest : public ::testing::Test {
protected:
  enum Outcome : uint8_t { Hit, Vain };
  struct Machine {
    HandoverTest &test;
    Handover::Clock::time_point now() { return test.now; }
    void yield() { test.now += test.yieldTakes; }
    void pause() { test.now += std::chrono::nanoseconds(50); }
  };
  /// One turn that took so long besides yielding; whether it began with a yield.
  bool turn(Duration took, Outcome outcome = Hit) {
    const bool yielded = handover.yields();
    if (yielded) {
      EXPECT_EQ(handover.yieldUntil([&] { return outcome == Hit; }, Machine{*this}),
                outcome == Hit);
    }
    handover.waited(now += yielded ? took : took + asleep);
    return yielded;
  }
  /// Quick turns until one yields.
  int turnsUntilYield(Outcome outcome) {
    int turns = 1;
    while (!turn(Short, outcome) && turns <= Handover::MostTurns)
      ++turns;
    return turns;
  }

  const Duration Short = std::chrono::microseconds(8), Long = std::chrono::milliseconds(3);
  Duration yieldTakes = std::chrono::microseconds(1);
  Duration asleep{0}; ///< what sleeping adds to a turn
  Handover handover;
  Handover::Clock::time_point now{std::chrono::hours(1)};
};

TEST_F(HandoverTest, NeverYieldsInAConversationThatIsNotQuick) {
  for (int i = 0; i < 10 * Handover::FirstTurns; ++i)
    ASSERT_FALSE(turn(Long));
}

TEST_F(HandoverTest, YieldsWhereSleepingTakesMostOfATurn) {
  asleep = std::chrono::microseconds(200);
  turnsUntilYield(Hit);
  for (int i = 0; i < 1000; ++i)
    ASSERT_TRUE(turn(Short));
}

TEST_F(HandoverTest, KeepsYieldingWhileMessagesGrowAndShrink) {
  asleep = std::chrono::microseconds(20);
  const auto took = [&](int i) { return Short + std::chrono::microseconds(i % 100); };
  int turns = 0;
  while (!turn(took(turns)))
    ASSERT_LT(++turns, 2 * Handover::FirstTurns);
  for (int i = 1; i < 1000; ++i)
    ASSERT_TRUE(turn(took(turns + i)));
}

TEST_F(HandoverTest, LosesLittleWhereQuickTurnsComeInBursts) {
  asleep = std::chrono::microseconds(3);
  constexpr int Bursts = 2000, TurnsOfABurst = 10;
  int yieldsInVain = 0;
  for (int burst = 0; burst < Bursts; ++burst) {
    for (int i = 1; i < TurnsOfABurst; ++i)
      turn(Short);
    yieldsInVain += turn(Long, Vain);
  }
  EXPECT_GT(yieldsInVain, 0);
  EXPECT_LT(yieldsInVain, Bursts / 4); // each would lose what ten turns earn
}

TEST_F(HandoverTest, KeepsYieldingWhileItPays) {
  asleep = std::chrono::microseconds(20);
  EXPECT_EQ(turnsUntilYield(Hit), Handover::FirstTurns + 2); // the first turn has no predecessor
  for (int i = 0; i < 1000; ++i)
    ASSERT_TRUE(turn(Short));
}

TEST_F(HandoverTest, StopsIfSleepingIsAsQuick) {
  turnsUntilYield(Hit);
  int yields = 0;
  for (int i = 0; i < 10'000; ++i)
    yields += turn(Short + std::chrono::microseconds(2));
  EXPECT_LT(yields, 5'000);
}

TEST_F(HandoverTest, BearsAFewYieldsInVainAndThenSeldomTries) {
  turnsUntilYield(Vain);
  int yields = 0;
  const int turns = 100 * Handover::LeastTurns;
  for (int i = 0; i < turns; ++i)
    yields += turn(Short, Vain);
  EXPECT_LE(yields, turns / 20);
  EXPECT_GT(yields, 0);
}

TEST_F(HandoverTest, BearsATurnThatTookLongForAnotherReason) {
  asleep = std::chrono::microseconds(20);
  turnsUntilYield(Hit);
  for (int i = 0; i < 1000; ++i)
    ASSERT_TRUE(turn(i % 100 ? Short : Long));
}

TEST_F(HandoverTest, ADelayedTurnDoesNotDecideTheComparison) {
  asleep = std::chrono::microseconds(3);
  turnsUntilYield(Hit);
  ASSERT_TRUE(turn(std::chrono::microseconds(400)));
  for (int i = 0; i < 1000; ++i)
    ASSERT_TRUE(turn(Short));
}

TEST_F(HandoverTest, StopsAtOnceWhenAYieldTookLongAndWaitsLongerEachTime) {
  asleep = std::chrono::microseconds(20);
  int last = turnsUntilYield(Hit);
  for (int i = 0; i < 4; ++i) {
    yieldTakes = Long;
    turn(Short);
    yieldTakes = std::chrono::microseconds(1);
    const int next = turnsUntilYield(Hit);
    EXPECT_GT(next, last * 3 / 2);
    EXPECT_LE(next, Handover::MostTurns + 2);
    last = next;
  }
}

TEST_F(HandoverTest, SpinsWhileThatFindsAnswers) {
  for (int i = 0; i < 1000; ++i)
    ASSERT_TRUE(handover.spinUntil([] { return true; }, Machine{*this}));
}

TEST_F(HandoverTest, SpinsSeldomAndBrieflyWhereThatFindsNothing) {
  const auto start = now;
  int spins = 0;
  constexpr int Waits = 100'000;
  for (int i = 0; i < Waits; ++i) {
    const auto before = now;
    ASSERT_FALSE(handover.spinUntil([] { return false; }, Machine{*this}));
    ASSERT_LE(now - before, 2 * Handover::MostSpin);
    spins += now != before;
  }
  EXPECT_GT(spins, Handover::SpinsInVain);
  EXPECT_LT(spins, Waits / 500);
  // One answer found in time, and it spins again.
  while (now == start || !handover.spinUntil([] { return true; }, Machine{*this})) {
  }
  EXPECT_TRUE(handover.spinUntil([] { return true; }, Machine{*this}));
}

TEST_F(HandoverTest, KnowsWhenAWaitEnded) {
  asleep = std::chrono::microseconds(20);
  turnsUntilYield(Hit);
  ASSERT_TRUE(handover.yields());
  ASSERT_TRUE(handover.yieldUntil([] { return true; }, Machine{*this}));
  EXPECT_EQ(handover.end(), now);
  handover.waited(handover.end());
  ASSERT_TRUE(handover.yields());
  int glances = 0;
  ASSERT_TRUE(handover.spinUntil([&] { return ++glances == 40; }, Machine{*this}));
  EXPECT_LE(now - handover.end(), std::chrono::microseconds(1));
}

TEST_F(HandoverTest, TriesAgainSoonWhereSleepingCostsMuch) {
  asleep = std::chrono::microseconds(60);
  turnsUntilYield(Hit);
  yieldTakes = Long;
  turn(Short);
  yieldTakes = std::chrono::microseconds(1);
  EXPECT_LT(turnsUntilYield(Hit), 100); // 3 ms are lost, each turn would have earned some 50 us
}

} // namespace
} // namespace mlbridge
