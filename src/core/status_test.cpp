// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <mlbridge/deadline.h>
#include <mlbridge/status.h>

#include <gtest/gtest.h>

#include <set>

using namespace mlbridge;

TEST(Status, SaysCodeAndMessage) {
  EXPECT_EQ(Status().toString(), "ok");
  EXPECT_EQ(Status(Code::Mismatch, "x is float32").toString(), "mismatch: x is float32");
  EXPECT_EQ(Status(Code::Busy, "").toString(), "busy");
}

TEST(Status, ContextGoesBeforeTheMessageAndKeepsTheCode) {
  const Status inner(Code::Closed, "after 3 of 8 bytes");
  const Status outer = inner.withContext("reply").withContext("step 2");
  EXPECT_EQ(outer.code(), Code::Closed);
  EXPECT_EQ(outer.message(), "step 2: reply: after 3 of 8 bytes");
  EXPECT_TRUE(Status().withContext("step 2").ok());
  EXPECT_EQ(Status().withContext("step 2").message(), "");
}

TEST(Status, IsCopiedAndMoved) {
  Status from(Code::Busy, "two are waiting");
  Status copy = from;
  const Status moved = std::move(from);
  copy = moved;
  const Status &itself = copy;
  copy = itself;
  for (const Status &same : {copy, moved}) {
    EXPECT_EQ(same.code(), Code::Busy);
    EXPECT_EQ(same.message(), "two are waiting");
  }
  copy = Status();
  EXPECT_TRUE(copy.ok());
  EXPECT_EQ(copy.message(), "");
  EXPECT_FALSE(moved.ok());
}

TEST(Status, OfTheCodeOkIsOkAndHasNoMessage) {
  const Status odd(Code::Ok, "all is well");
  EXPECT_TRUE(odd.ok());
  EXPECT_EQ(odd.toString(), "ok");
}

TEST(Status, EveryCodeHasItsOwnNameAndANextStep) {
  std::set<std::string> names;
  for (int i = 0; i <= static_cast<int>(Code::Internal); ++i) {
    const Code code = static_cast<Code>(i);
    EXPECT_TRUE(names.insert(name(code)).second) << name(code);
    EXPECT_EQ(nextStep(code) == NextStep::Proceed, code == Code::Ok);
  }
  EXPECT_STREQ(name(static_cast<Code>(99)), "unknown code");
  EXPECT_EQ(nextStep(Code::Unavailable), NextStep::Retry);
  EXPECT_EQ(nextStep(Code::Mismatch), NextStep::FixModel);
  EXPECT_EQ(nextStep(Code::Internal), NextStep::Stop);
  EXPECT_STREQ(name(nextStep(Code::NotFound)), "fix the call");
}

TEST(Expected, HoldsAValueOrAStatus) {
  const Expected<int> seven = 7;
  ASSERT_TRUE(seven);
  EXPECT_EQ(*seven, 7);
  EXPECT_TRUE(seven.status().ok());
  const Expected<int> none = Status(Code::NotFound, "nothing");
  EXPECT_FALSE(none);
  EXPECT_EQ(none.valueOr(3), 3);
  EXPECT_EQ(none.status().code(), Code::NotFound);
}

TEST(Expected, FromAnOkStatusIsABugAndSaysSo) {
  const Expected<int> odd = Status();
  EXPECT_FALSE(odd);
  EXPECT_EQ(odd.status().code(), Code::Internal);
}

TEST(Deadline, NeverPassesUnlessItHasAnEnd) {
  EXPECT_TRUE(Deadline().isNever());
  EXPECT_FALSE(Deadline().hasPassed());
  EXPECT_EQ(Deadline().pollTimeout(), -1);
  EXPECT_EQ(Deadline().left(), Duration::max());
  EXPECT_TRUE(Deadline::after(Duration::max()).isNever());
}

TEST(Deadline, PassedOnesHaveNothingLeft) {
  const Deadline now = Deadline::after(std::chrono::seconds(-5));
  EXPECT_TRUE(now.hasPassed());
  EXPECT_EQ(now.left(), Duration::zero());
  EXPECT_EQ(now.pollTimeout(), 0);
  const Deadline later = Deadline::after(std::chrono::hours(1));
  EXPECT_FALSE(later.hasPassed());
  EXPECT_TRUE(earlier(now, later).hasPassed());
  EXPECT_TRUE(earlier(later, now).hasPassed());
  EXPECT_FALSE(earlier(later, Deadline()).isNever());
}
