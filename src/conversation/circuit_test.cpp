// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "conversation/circuit.h"

#include <gtest/gtest.h>

namespace mlbridge {
namespace {

using namespace std::chrono_literals;

const Status Late(Code::DeadlineExceeded, "no answer");

/// A call that has waited for so long.
void wait(Circuit &circuit, Duration duration) {
  circuit.recordTimeout(Deadline::Clock::now() - duration, Late);
}

TEST(Circuit, OpensWhenCallsHaveTogetherWaitedForADeadline) {
  Circuit circuit(1h);
  for (int i = 0; i < 59; ++i) {
    wait(circuit, 1min);
    ASSERT_FALSE(circuit.isOpen()) << i;
    ASSERT_TRUE(circuit.admit(Deadline::never()));
  }
  // No call may wait for more than what is left.
  EXPECT_LE(circuit.admit(Deadline::never())->left(), Duration(1min));
  EXPECT_LE(circuit.admit(Deadline::after(1s))->left(), Duration(1s));
  wait(circuit, 1min);
  EXPECT_TRUE(circuit.isOpen());
  const Status refused = circuit.admit(Deadline::never()).status();
  EXPECT_EQ(refused.code(), Code::Unavailable);
  EXPECT_NE(refused.message().find("no answer"), std::string::npos);
}

TEST(Circuit, AnAnswerRestoresTheBudget) {
  Circuit circuit(1h);
  wait(circuit, 59min);
  circuit.answered();
  wait(circuit, 59min);
  EXPECT_FALSE(circuit.isOpen());
  EXPECT_TRUE(circuit.admit(Deadline::never()));
}

TEST(Circuit, WithoutLimitNeverOpens) {
  for (const Duration budget : {Duration::max(), Duration::max() - 1ns}) {
    Circuit circuit(budget);
    for (int i = 0; i < 100; ++i)
      wait(circuit, 1h);
    EXPECT_FALSE(circuit.isOpen());
    EXPECT_TRUE(circuit.admit(Deadline::never())->isNever());
  }
  Circuit centuries(24h * 365 * 290);
  wait(centuries, 1h);
  EXPECT_FALSE(centuries.isOpen());
  EXPECT_GT(centuries.admit(Deadline::never())->left(), Duration(1h));
}

TEST(Circuit, AServerThatIsThereClosesItForATenth) {
  Circuit circuit(1h);
  circuit.reached();
  EXPECT_TRUE(circuit.admit(Deadline::never())->isNever());
  wait(circuit, 2h);
  EXPECT_TRUE(circuit.isOpen());
  circuit.reached();
  EXPECT_FALSE(circuit.isOpen());
  EXPECT_LE(circuit.admit(Deadline::never())->left(), Duration(6min));
  circuit.answered();
  EXPECT_TRUE(circuit.admit(Deadline::never())->isNever());
}

} // namespace
} // namespace mlbridge
