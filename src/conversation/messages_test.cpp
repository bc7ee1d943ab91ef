// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A peer's power over a message's reader: bounded work, bounded texts.
#include "conversation/messages.h"

#include <gtest/gtest.h>

namespace mlbridge {
namespace {

Signature manyInputs(int count) {
  Signature signature;
  for (int i = 0; i < count; ++i)
    signature.inputs.push_back(TensorSpec::of<float>("x" + std::to_string(i)));
  return signature;
}

TEST(Messages, ASignatureHasABoundedNumberOfTensors) {
  OpenStream open;
  open.signature = manyInputs(1 << 16);
  Buffer most;
  ASSERT_TRUE(encode(open, most));
  EXPECT_TRUE(decode<OpenStream>(most.span()));

  Welcome welcome;
  welcome.signature = manyInputs((1 << 16) + 1);
  Buffer tooMany;
  ASSERT_TRUE(encode(welcome, tooMany));
  EXPECT_EQ(decode<Welcome>(tooMany.span()).status().toString(),
            "protocol: welcome: field 'signature' states 65537 entries, the limit is 65536");
}

TEST(Messages, AWelcomeOfAStatelessServerSaysSo) {
  Welcome welcome;
  welcome.signature = manyInputs(1);
  Buffer without, with;
  ASSERT_TRUE(encode(welcome, without));
  welcome.stateless = true;
  ASSERT_TRUE(encode(welcome, with));
  // As it is written by those who know nothing of it, and before it role 0 and no agents.
  EXPECT_EQ(with.size(), without.size() + 1 + 4 + 1);
  EXPECT_FALSE(decode<Welcome>(without.span())->stateless);
  const Expected<Welcome> read = decode<Welcome>(with.span());
  ASSERT_TRUE(read) << read.status().toString();
  EXPECT_TRUE(read->stateless);
  EXPECT_TRUE(read->agents.empty());
}

TEST(Messages, ALongTextIsCutAtACharacter) {
  std::string text(4095, 'a');
  text += "\xc3\xa4\xc3\xa4"; // of two bytes each
  Buffer error, busy, bye;
  ASSERT_TRUE(encode(Status(Code::PolicyFailed, text), error));
  BusyMessage message;
  message.text = std::string(7 << 20, 'b');
  ASSERT_TRUE(encode(message, busy));
  ASSERT_TRUE(encode(ByeMessage{std::string(4096, 'c')}, bye));
  const std::string mark = " [... cut, it has 4099 bytes]";
  EXPECT_EQ(decodeError(error.span()).message(), std::string(4095, 'a') + mark);
  EXPECT_LT(decode<BusyMessage>(busy.span())->text.size(), 4200u);
  EXPECT_EQ(decode<ByeMessage>(bye.span())->text, std::string(4096, 'c'));
}

} // namespace
} // namespace mlbridge
