// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The bytes of the bitstream format, and what it says about wrong ones.
#include "testing/tensors.h"

#include <gtest/gtest.h>

namespace mlbridge {
namespace {

using namespace mlbridge::testing;

std::string word(uint64_t value) { return {reinterpret_cast<const char *>(&value), sizeof value}; }
std::string zeros(size_t count) { return std::string(count, '\0'); }

std::unique_ptr<Codec> codecOf(const std::vector<TensorSpec> &specs) {
  auto codec = bitstreamSerDes().newCodec(specs);
  EXPECT_TRUE(codec) << codec.status().toString();
  return std::move(*codec);
}

TEST(Bitstream, WritesTheDocumentedBytes) {
  std::vector<TensorSpec> specs = {
      TensorSpec::of<bool>("flag"), TensorSpec::of<uint16_t>("counts", {Dynamic, 3}),
      TensorSpec::of<std::string>("words", {2}), TensorSpec::of<int32_t>("last")};
  std::vector<Tensor> tensors;
  tensors.push_back(*Tensor::make(specs[0], specs[0].shape));
  tensors.push_back(*Tensor::make(specs[1], Shape{1, 3}));
  tensors.push_back(*Tensor::make(specs[2], specs[2].shape));
  tensors.push_back(*Tensor::make(specs[3], specs[3].shape));
  tensors[0].as<bool>()[0] = true;
  for (int k = 0; k < 3; ++k)
    tensors[1].as<uint16_t>()[k] = static_cast<uint16_t>(0x0102 + k);
  tensors[2].as<std::string>()[0] = "abc";
  tensors[2].as<std::string>()[1] = "de";
  tensors[3].as<int32_t>()[0] = -2;
  Buffer out;
  ASSERT_TRUE(codecOf(specs)->encode(viewsOf(tensors), out));
  EXPECT_EQ(textOf(out), "\x01" + zeros(7) + word(1) + "\x02\x01\x03\x01\x04\x01" + zeros(2) +
                             word(3) + word(2) + "abcde" + zeros(3) + "\xfe\xff\xff\xff");
}

TEST(Bitstream, HasALayoutForNumbersOfFixedShape) {
  auto codec = codecOf({TensorSpec::of<bool>("flag", {3}), TensorSpec::of<double>("x", {2}),
                        TensorSpec::of<int8_t>("none", {0}), TensorSpec::of<int8_t>("byte")});
  const Codec::Layout *layout = codec->layout();
  ASSERT_TRUE(layout);
  EXPECT_EQ(layout->offsets, (std::vector<size_t>{0, 8, 24, 24}));
  EXPECT_EQ(layout->size, 25u);
  EXPECT_EQ(codecOf({})->layout()->size, 0u);
  EXPECT_FALSE(
      codecOf({TensorSpec::of<bool>("a"), TensorSpec::of<float>("x", {Dynamic})})->layout());
  EXPECT_FALSE(codecOf({TensorSpec::of<std::string>("a"), TensorSpec::of<bool>("b")})->layout());
}

TEST(Bitstream, ChecksAMessageInPlaceAsItDecodes) {
  std::vector<TensorSpec> specs = {TensorSpec::of<bool>("flag", {3}), TensorSpec::of<float>("x")};
  auto codec = codecOf(specs);
  const std::string good = "\x01" + zeros(1) + "\x01" + zeros(5) + zeros(4);
  for (size_t at = 0; at <= good.size(); ++at)
    for (char to : {'\x01', '\x02', '\x00'}) {
      std::string message = good;
      if (at < good.size())
        message[at] = to;
      else
        message += to;
      Tensors sink(specs);
      Status decoded = decode(*codec, message, sink);
      Status checked =
          codec->check({reinterpret_cast<const uint8_t *>(message.data()), message.size()});
      EXPECT_EQ(decoded.code(), checked.code()) << at;
      EXPECT_EQ(decoded.message(), checked.message()) << at;
    }
}

struct Wrong {
  std::string what;
  TensorSpec spec;
  std::string message;
  std::string expected;
};

TEST(Bitstream, SaysWhereAMessageIsWrong) {
  const uint64_t huge = uint64_t(1) << 60;
  const Wrong table[] = {
      {"short", TensorSpec::of<float>("x", {100}), zeros(100),
       "bitstream: tensor 'x' needs 400 bytes at offset 0, message has 100 left"},
      {"long", TensorSpec::of<float>("x", {1}), zeros(5),
       "bitstream: expected the end at offset 4, the message has 5 bytes"},
      {"bool", TensorSpec::of<bool>("mask", {3}), std::string("\0\1\2", 3),
       "bitstream: tensor 'mask' element 2 at offset 2 is 2, a bool is 0 or 1"},
      {"no length", TensorSpec::of<float>("x", {Dynamic}), zeros(4),
       "bitstream: tensor 'x' needs 8 bytes at offset 0, message has 4 left"},
      {"over the maximum", TensorSpec::of<float>("x", {Dynamic}, {600}), word(601) + zeros(2404),
       "bitstream: tensor 'x' dimension 0 at offset 0 is 601, at most 600 is allowed"},
      {"2^58 floats", TensorSpec::of<float>("x", {Dynamic}), word(huge / 4) + zeros(8),
       "bitstream: tensor 'x' needs 1152921504606846976 bytes at offset 8, message has 8 left"},
      {"2^60 floats", TensorSpec::of<float>("x", {Dynamic}), word(huge) + zeros(8),
       "bitstream: tensor 'x' has more elements than any message: its shape is "
       "[1152921504606846976] before offset 8"},
      {"2^64 - 1", TensorSpec::of<float>("x", {Dynamic}), word(~uint64_t(0)) + zeros(8),
       "bitstream: tensor 'x' dimension 0 at offset 0 is 18446744073709551615, at most "
       "9223372036854775807 is allowed"},
      {"2^40 * 2^40", TensorSpec::of<int8_t>("x", {Dynamic, Dynamic}),
       word(uint64_t(1) << 40) + word(uint64_t(1) << 40),
       "bitstream: tensor 'x' has more elements than any message: its shape is [1099511627776, "
       "1099511627776] before offset 16"},
      {"2^58 strings", TensorSpec::of<std::string>("s", {Dynamic}), word(huge / 4) + zeros(8),
       "bitstream: tensor 's' needs 2305843009213693952 bytes at offset 8, message has 8 left"},
      {"long string", TensorSpec::of<std::string>("s", {2}), word(3) + word(huge) + "abc",
       "bitstream: tensor 's' element 1 needs 1152921504606846976 bytes, message has 0 left"},
  };
  for (const Wrong &wrong : table) {
    std::vector<TensorSpec> specs = {wrong.spec};
    Tensors sink(specs);
    Status s = decode(*codecOf(specs), wrong.message, sink);
    EXPECT_EQ(s.code(), Code::Protocol) << wrong.what;
    EXPECT_EQ(s.message(), wrong.expected) << wrong.what;
    EXPECT_EQ(sink.prepared[0], wrong.what == "long") << wrong.what;
  }
}

TEST(Bitstream, SaysWherePaddingIsNotZero) {
  std::vector<TensorSpec> specs = {TensorSpec::of<bool>("a"), TensorSpec::of<bool>("b")};
  std::string message = zeros(9);
  message[5] = 7;
  Tensors sink(specs);
  Status s = decode(*codecOf(specs), message, sink);
  EXPECT_EQ(s.code(), Code::Protocol);
  EXPECT_EQ(s.message(), "bitstream: padding byte at offset 5 before tensor 'b' is 7, expected 0");
  s = decode(*codecOf(specs), zeros(3), sink);
  EXPECT_EQ(s.message(), "bitstream: tensor 'b' starts at offset 8, message has 3 bytes");
}

} // namespace
} // namespace mlbridge
