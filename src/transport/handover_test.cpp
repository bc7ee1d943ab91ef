// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "transport/handover.h"

#include <gtest/gtest.h>

namespace mlbridge {
namespace {

class HandoverTest : public ::testing::Test {
protected:
  enum Outcome : uint8_t { Hit, Vain };
  /// One turn that took so long; whether it began with a yield.
  bool turn(Duration took, Outcome outcome = Hit) {
    const bool yielded = handover.yields();
    if (yielded) {
      EXPECT_EQ(handover.yieldUntil([&] { return outcome == Hit; }), outcome == Hit);
    }
    handover.waited(now += took);
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
  Handover handover;
  Handover::Clock::time_point now{std::chrono::hours(1)};
};

TEST_F(HandoverTest, NeverYieldsInAConversationThatIsNotQuick) {
  for (int i = 0; i < 10 * Handover::FirstTurns; ++i)
    ASSERT_FALSE(turn(i % Handover::FirstTurns ? Short : Long));
}

TEST_F(HandoverTest, KeepsYieldingWhileItPays) {
  EXPECT_EQ(turnsUntilYield(Hit), Handover::FirstTurns + 2); // the first turn has no predecessor
  for (int i = 0; i < 1000; ++i)
    ASSERT_TRUE(turn(Short));
}

TEST_F(HandoverTest, BearsAFewYieldsInVainAndThenSeldomTries) {
  turnsUntilYield(Vain);
  int yields = 0;
  const int turns = 100 * Handover::NextTurns;
  for (int i = 0; i < turns; ++i)
    yields += turn(Short, Vain);
  EXPECT_LE(yields, 2 * Handover::FirstCredit * turns / Handover::NextTurns);
  EXPECT_GT(yields, 0);
}

TEST_F(HandoverTest, StopsAtOnceWhenAYieldTookLongAndWaitsLongerEachTime) {
  int last = turnsUntilYield(Hit);
  for (int i = 0; i < 3; ++i) {
    turn(Long);
    const int next = turnsUntilYield(Hit);
    EXPECT_GT(next, 3 * last);
    last = next;
  }
}

} // namespace
} // namespace mlbridge
