// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The messages of the component are those of the classes that protoc makes from
// proto/mlbridge/v1/tensors.proto, in both directions.
#include "testing/tensors.h"
#include <mlbridge/v1/tensors.pb.h>

#include <gtest/gtest.h>

namespace mlbridge {
namespace {

using namespace mlbridge::testing;

std::unique_ptr<Codec> codecOf(const std::vector<TensorSpec> &specs) {
  auto serdes = serdesNamed("protobuf");
  EXPECT_TRUE(serdes) << serdes.status().toString();
  auto codec = (*serdes)->newCodec(specs);
  EXPECT_TRUE(codec) << codec.status().toString();
  return std::move(*codec);
}

/// A message as somebody would write it who has the .proto and nothing else.
v1::TensorList generated(std::vector<Tensor> &tensors) {
  v1::TensorList list;
  for (Tensor &tensor : tensors) {
    const TensorView view = tensor.view();
    v1::Tensor &to = *list.add_tensors();
    to.set_name(tensor.spec().name);
    to.set_type(static_cast<v1::ElementType>(view.type));
    to.mutable_shape()->Add(view.shape.begin(), view.shape.end());
    if (view.type == ElementType::String)
      for (const std::string &s : view.as<std::string>())
        to.add_strings(s);
    else
      to.set_contents(view.data, view.bytes());
  }
  return list;
}

std::vector<Tensor> randomTensors(Random &random, const std::vector<TensorSpec> &specs) {
  std::vector<Tensor> tensors;
  for (const TensorSpec &spec : specs)
    tensors.push_back(randomTensor(random, spec));
  return tensors;
}

TEST(Protobuf, WritesWhatTheGeneratedClassesWrite) {
  for (uint64_t seed = 1; seed <= 500; ++seed) {
    SCOPED_TRACE(seed);
    Random random(seed);
    const std::vector<TensorSpec> specs = randomSpecs(random);
    std::vector<Tensor> tensors = randomTensors(random, specs);
    Buffer out;
    ASSERT_TRUE(codecOf(specs)->encode(viewsOf(tensors), out));
    ASSERT_EQ(textOf(out), generated(tensors).SerializeAsString());
    v1::TensorList read;
    ASSERT_TRUE(read.ParseFromString(textOf(out)));
    ASSERT_EQ(read.tensors_size(), static_cast<int>(specs.size()));
  }
}

TEST(Protobuf, ReadsWhatTheGeneratedClassesWriteInAnyOrder) {
  for (uint64_t seed = 1; seed <= 500; ++seed) {
    SCOPED_TRACE(seed);
    Random random(seed);
    const std::vector<TensorSpec> specs = randomSpecs(random);
    std::vector<Tensor> tensors = randomTensors(random, specs);
    v1::TensorList list = generated(tensors);
    std::shuffle(list.mutable_tensors()->pointer_begin(), list.mutable_tensors()->pointer_end(),
                 random);
    Tensors read(specs);
    Status s = decode(*codecOf(specs), list.SerializeAsString(), read);
    ASSERT_TRUE(s) << s.toString();
    for (size_t i = 0; i < specs.size(); ++i)
      ASSERT_TRUE(same(tensors[i], read.tensors[i])) << specs[i].toString();
  }
}

// Protobuf's own parser reads the same tensors from every message that is read here.
TEST(Protobuf, ReadsNothingThatTheGeneratedClassesRefuse) {
  Random random(7);
  int accepted = 0;
  for (int round = 0; round < 30000; ++round) {
    const std::vector<TensorSpec> specs = {TensorSpec::of<uint8_t>("b", {Dynamic}),
                                           TensorSpec::of<std::string>("s", {Dynamic})};
    std::vector<Tensor> tensors = randomTensors(random, specs);
    std::string message = generated(tensors).SerializeAsString();
    for (uint64_t n = below(random, 3); n > 0; --n)
      message[below(random, message.size())] ^= static_cast<char>(1 << below(random, 8));
    Tensors read(specs);
    const Status s = decode(*codecOf(specs), message, read);
    v1::TensorList list;
    if (s) {
      ASSERT_TRUE(list.ParseFromString(message)) << round;
      ASSERT_EQ(list.tensors_size(), 2);
      for (const v1::Tensor &tensor : list.tensors()) {
        Tensor &mine = read.tensors[tensor.name() == "b" ? 0 : 1];
        if (tensor.name() == "b") {
          const auto span = mine.as<uint8_t>();
          EXPECT_EQ(tensor.contents(), std::string(span.begin(), span.end()));
        } else {
          const auto span = mine.as<std::string>();
          EXPECT_TRUE(std::equal(span.begin(), span.end(), tensor.strings().begin(),
                                 tensor.strings().end()));
        }
      }
      ++accepted;
    }
  }
  EXPECT_GT(accepted, 5000);
}

TEST(Protobuf, KeepsStringsThatAreNotUtf8) {
  std::vector<Tensor> tensors(1, Tensor(TensorSpec::of<std::string>("x", {2})));
  tensors[0].as<std::string>()[1] = "\xff\xc0";
  Buffer out;
  const std::vector<TensorSpec> specs = {tensors[0].spec()};
  ASSERT_TRUE(codecOf(specs)->encode(viewsOf(tensors), out));
  Tensors read(specs);
  ASSERT_TRUE(decode(*codecOf(specs), textOf(out), read));
  EXPECT_TRUE(same(tensors[0], read.tensors[0]));
}

TEST(Protobuf, RefusesWhatItCannotCarry) {
  const SerDes &serdes = **serdesNamed("protobuf");
  for (std::string bad : {"\xff", "a\xc3", "\xed\xa0\x80", "\xc0\x80", "\xf4\x90\x80\x80"}) {
    auto codec = serdes.newCodec(std::vector<TensorSpec>{TensorSpec::of<bool>(bad)});
    ASSERT_FALSE(codec);
    EXPECT_EQ(codec.status().code(), Code::Unsupported);
    EXPECT_NE(codec.status().message().find("is not UTF-8"), std::string::npos);
  }
  for (std::string good : {"\xc3\xa9", "\xed\x9f\xbf", "\xf4\x8f\xbf\xbf", "\xe2\x82\xac"})
    EXPECT_TRUE(serdes.newCodec(std::vector<TensorSpec>{TensorSpec::of<bool>(good)}));
  auto large =
      serdes.newCodec(std::vector<TensorSpec>{TensorSpec::of<float>("x", {1 << 20, 1 << 10})});
  ASSERT_FALSE(large);
  EXPECT_EQ(large.status().message(), "protobuf: tensor 'x' is too large for protobuf");
}

} // namespace
} // namespace mlbridge
