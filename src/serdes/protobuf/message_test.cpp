// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Messages of a pass's own .proto: what is written, the generated classes read, and the other way.
#include "testing/built.h"
#include "testing/tensors.h"
#include <mlbridge/model.h>
#include <regalloc.pb.h>

#include <google/protobuf/descriptor.h>
#include <gtest/gtest.h>

namespace mlbridge {
namespace {

using namespace mlbridge::testing;
namespace pb = google::protobuf;

const std::string Proto = sourceFile("src/serdes/protobuf/testing/regalloc.proto");

Expected<std::unique_ptr<Codec>> make(const std::string &message,
                                      const std::vector<TensorSpec> &specs,
                                      const std::string &proto = Proto) {
  Uri uri;
  uri.scheme = "unix";
  uri.options = {
      {"serdes", "protobuf"}, {"proto", proto}, {"request", message}, {"reply", message}};
  Expected<ChosenSerDes> chosen = serdesOf(uri);
  if (!chosen)
    return chosen.status();
  EXPECT_EQ(chosen->name, "protobuf:" + message + "/" + message);
  return chosen->serdes->newCodec(Side::Inputs, specs);
}

std::unique_ptr<Codec> codecOf(const std::string &message, const std::vector<TensorSpec> &specs) {
  auto codec = make(message, specs);
  EXPECT_TRUE(codec) << codec.status().toString();
  return codec ? std::move(*codec) : nullptr;
}

Tensor sized(const TensorSpec &spec, const Shape &shape) {
  auto made = Tensor::make(spec, shape);
  EXPECT_TRUE(made) << made.status().toString();
  return std::move(*made);
}

template <typename T> void fill(Tensor &tensor, std::vector<T> values) {
  ASSERT_EQ(tensor.as<T>().size(), values.size());
  std::copy(values.begin(), values.end(), tensor.as<T>().begin());
}

/// The signature of Features, with interferences and vectors in rows of their own length.
const std::vector<TensorSpec> FeatureSpecs = {
    TensorSpec::of<std::string>("function.name"),
    TensorSpec::of<double>("function.cost"),
    TensorSpec::of<uint32_t>("ranges.id", {Dynamic}, {600}),
    TensorSpec::of<float>("ranges.spill_weight", {Dynamic}),
    TensorSpec::of<std::string>("ranges.register_class", {Dynamic}),
    TensorSpec::of<uint32_t>("ranges.interferences", {Dynamic}),
    TensorSpec::of<int64_t>("ranges.interferences#lengths", {Dynamic}),
    TensorSpec::of<float>("ranges.vectors", {Dynamic, 3}),
    TensorSpec::of<int64_t>("ranges.vectors#lengths", {Dynamic}),
    TensorSpec::of<float>("ranges.mean", {Dynamic, 3}),
    TensorSpec::of<float>("matrix", {Dynamic, 2}),
    TensorSpec::of<bool>("mask", {4})};

std::vector<Tensor> featureTensors() {
  const std::vector<Shape> shapes = {{},  {},     {3}, {3},    {3},    {4},
                                     {3}, {3, 3}, {3}, {3, 3}, {2, 2}, {4}};
  std::vector<Tensor> t;
  for (size_t i = 0; i < shapes.size(); ++i)
    t.push_back(sized(FeatureSpecs[i], shapes[i]));
  fill<std::string>(t[0], {"main"});
  fill<double>(t[1], {0.0});
  fill<uint32_t>(t[2], {7, 0, 9});
  fill<float>(t[3], {0.5f, -0.0f, 0.0f});
  fill<std::string>(t[4], {"GPR", "", "FPR"});
  fill<uint32_t>(t[5], {1, 300, 70000, 0});
  fill<int64_t>(t[6], {3, 0, 1});
  fill<float>(t[7], {1, 2, 3, 4, 5, 6, 7, 8, 9});
  fill<int64_t>(t[8], {0, 2, 1});
  fill<float>(t[9], {1, 1, 1, 2, 2, 2, 3, 3, 3});
  fill<float>(t[10], {1, 2, 3, 4});
  auto *mask = static_cast<uint8_t *>(t[11].view().data);
  mask[1] = mask[3] = 1;
  return t;
}

regalloc::Features featureMessage() {
  regalloc::Features m;
  m.mutable_function()->set_name("main");
  m.mutable_function()->set_cost(0);
  for (int i = 0; i < 3; ++i) {
    regalloc::LiveRange &r = *m.add_ranges();
    r.set_id(i == 0 ? 7 : i == 1 ? 0 : 9);
    r.set_spill_weight(i == 0 ? 0.5f : i == 1 ? -0.0f : 0.0f);
    r.set_register_class(i == 0 ? "GPR" : i == 1 ? "" : "FPR");
    for (int k = 0; k < 3; ++k)
      r.add_mean(static_cast<float>(i + 1));
  }
  for (uint32_t n : {1u, 300u, 70000u})
    m.mutable_ranges(0)->add_interferences(n);
  m.mutable_ranges(2)->add_interferences(0);
  for (int k = 1; k <= 9; ++k)
    m.mutable_ranges(k <= 6 ? 1 : 2)->add_vectors(static_cast<float>(k));
  for (int k = 1; k <= 4; ++k)
    m.add_matrix(static_cast<float>(k));
  for (bool b : {false, true, false, true})
    m.add_mask(b);
  return m;
}

TEST(ProtobufMessage, IsWhatTheGeneratedClassWrites) {
  auto codec = codecOf("regalloc.Features", FeatureSpecs);
  std::vector<Tensor> tensors = featureTensors();
  Buffer out;
  ASSERT_TRUE(out.append("ab", 2));
  Status s = codec->encode(viewsOf(tensors), out);
  ASSERT_TRUE(s) << s.toString();
  EXPECT_EQ(textOf(out), "ab" + featureMessage().SerializeAsString());
}

TEST(ProtobufMessage, IsReadAsTheGeneratedClassWroteIt) {
  auto codec = codecOf("regalloc.Features", FeatureSpecs);
  regalloc::Features message = featureMessage();
  message.set_unused(3); // no tensor asks for it
  Tensors read(FeatureSpecs);
  Status s = decode(*codec, message.SerializeAsString(), read);
  ASSERT_TRUE(s) << s.toString();
  std::vector<Tensor> expected = featureTensors();
  for (size_t i = 0; i < expected.size(); ++i)
    EXPECT_TRUE(same(expected[i], read.tensors[i])) << FeatureSpecs[i].toString();
}

TEST(ProtobufMessage, MergesWhatComesInParts) {
  auto codec = codecOf("regalloc.Features", FeatureSpecs);
  regalloc::Features message = featureMessage(), first;
  first.mutable_function()->set_name("main");
  *first.mutable_ranges() = message.ranges();
  message.clear_ranges();
  message.mutable_function()->clear_name();
  Tensors read(FeatureSpecs);
  Status s = decode(*codec, first.SerializeAsString() + message.SerializeAsString(), read);
  ASSERT_TRUE(s) << s.toString();
  std::vector<Tensor> expected = featureTensors();
  for (size_t i = 0; i < expected.size(); ++i)
    EXPECT_TRUE(same(expected[i], read.tensors[i])) << FeatureSpecs[i].toString();
}

TEST(ProtobufMessage, MayHaveNoRanges) {
  auto codec = codecOf("regalloc.Features", FeatureSpecs);
  regalloc::Features message = featureMessage();
  message.clear_ranges();
  message.clear_matrix();
  Tensors read(FeatureSpecs);
  Status s = decode(*codec, message.SerializeAsString(), read);
  ASSERT_TRUE(s) << s.toString();
  EXPECT_EQ(read.tensors[9].spec().shape, (Shape{0, 3}));
  Buffer out;
  ASSERT_TRUE(codec->encode(viewsOf(read.tensors), out));
  EXPECT_EQ(textOf(out), message.SerializeAsString());
}

TEST(ProtobufMessage, KeepsEveryKindOfField) {
  const pb::Descriptor &type = *regalloc::Everything::descriptor();
  std::vector<TensorSpec> specs;
  for (int i = 0; i < type.field_count(); ++i) {
    const pb::FieldDescriptor &f = *type.field(i);
    if (f.containing_oneof() || f.is_map())
      continue;
    static const std::map<pb::FieldDescriptor::CppType, ElementType> types = {
        {pb::FieldDescriptor::CPPTYPE_INT32, ElementType::Int32},
        {pb::FieldDescriptor::CPPTYPE_ENUM, ElementType::Int32},
        {pb::FieldDescriptor::CPPTYPE_INT64, ElementType::Int64},
        {pb::FieldDescriptor::CPPTYPE_UINT32, ElementType::UInt32},
        {pb::FieldDescriptor::CPPTYPE_UINT64, ElementType::UInt64},
        {pb::FieldDescriptor::CPPTYPE_FLOAT, ElementType::Float32},
        {pb::FieldDescriptor::CPPTYPE_DOUBLE, ElementType::Float64},
        {pb::FieldDescriptor::CPPTYPE_BOOL, ElementType::Bool},
        {pb::FieldDescriptor::CPPTYPE_STRING, ElementType::String}};
    const Shape shape = f.is_repeated() ? Shape{Dynamic} : Shape{};
    specs.push_back({f.name(), types.at(f.cpp_type()), shape, {}});
  }
  ASSERT_EQ(specs.size(), 33u);
  auto codec = codecOf("regalloc.Everything", specs);
  for (uint64_t seed = 1; seed <= 300; ++seed) {
    Random random(seed);
    std::vector<Tensor> tensors;
    for (const TensorSpec &spec : specs)
      tensors.push_back(randomTensor(random, spec));
    Buffer out;
    Status s = codec->encode(viewsOf(tensors), out);
    ASSERT_TRUE(s) << s.toString();
    regalloc::Everything message;
    ASSERT_TRUE(message.ParseFromString(textOf(out)));
    ASSERT_EQ(message.SerializeAsString(), textOf(out)) << seed;
    ASSERT_EQ(message.a_sint64(), tensors[5].as<int64_t>()[0]);
    Tensors read(specs);
    s = decode(*codec, textOf(out), read);
    ASSERT_TRUE(s) << s.toString();
    for (size_t i = 0; i < specs.size(); ++i)
      ASSERT_TRUE(same(tensors[i], read.tensors[i])) << specs[i].toString();
  }
}

TEST(ProtobufMessage, SurvivesDamage) {
  auto codec = codecOf("regalloc.Features", FeatureSpecs);
  const std::string good = featureMessage().SerializeAsString();
  for (size_t size = 0; size < good.size(); ++size) {
    Tensors read(FeatureSpecs);
    Status s = decode(*codec, good.substr(0, size), read);
    ASSERT_TRUE(s || s.code() == Code::Protocol) << size << ": " << s.toString();
  }
  Random random(3);
  for (int round = 0; round < 50000; ++round) {
    std::string message = good;
    for (uint64_t n = 1 + below(random, 3); n > 0; --n)
      message[below(random, message.size())] = static_cast<char>(random());
    Tensors read(FeatureSpecs);
    Status s = decode(*codec, message, read);
    ASSERT_TRUE(s || s.code() == Code::Protocol) << s.toString();
    ASSERT_EQ(s.message().find('\n'), std::string::npos);
    for (size_t i = 0; s && i < FeatureSpecs.size(); ++i)
      ASSERT_EQ(read.prepared[i], 1);
  }
}

TEST(ProtobufMessage, ThatLacksSomethingIsRefused) {
  struct Case {
    std::function<void(regalloc::Features &)> damage;
    const char *expected;
  };
  const Case cases[] = {
      {[](auto &m) { m.clear_function(); }, "the message 'function' is missing"},
      {[](auto &m) { m.mutable_function()->clear_cost(); }, "tensor 'function.cost' is missing"},
      {[](auto &m) { m.clear_mask(); }, "tensor 'mask' has 0 values, expected 4"},
      {[](auto &m) { m.add_matrix(1); }, "tensor 'matrix' has 5 values, expected a multiple of 2"},
      {[](auto &m) { m.mutable_ranges(1)->add_mean(1); }, "'ranges.mean' has rows of 3 and of 4"},
      {[](auto &m) { m.mutable_ranges(1)->add_vectors(1); },
       "'ranges.vectors': a row has 7 values"},
      {[](auto &m) {
         for (int i = 0; i < 600; ++i)
           *m.add_ranges() = m.ranges(0);
       },
       "dimension 0 exceeds its maximum"}};
  auto codec = codecOf("regalloc.Features", FeatureSpecs);
  for (const Case &c : cases) {
    regalloc::Features message = featureMessage();
    c.damage(message);
    Tensors read(FeatureSpecs);
    Status s = decode(*codec, message.SerializeAsString(), read);
    EXPECT_EQ(s.code(), Code::Protocol);
    EXPECT_NE(s.message().find(c.expected), std::string::npos) << s.message();
  }
}

TEST(ProtobufMessage, IsNotWrittenOfTensorsThatContradict) {
  auto codec = codecOf("regalloc.Features", FeatureSpecs);
  Buffer out;
  std::vector<Tensor> tensors = featureTensors();
  tensors[3] = sized(FeatureSpecs[3], {2});
  Status s = codec->encode(viewsOf(tensors), out);
  EXPECT_EQ(s.message(), "protobuf: tensor 'ranges.spill_weight' is for 2 messages, but tensor "
                         "'ranges.id' for 3");
  for (int64_t wrong : {int64_t{-1}, int64_t{2}, int64_t{0}, INT64_MAX}) {
    tensors = featureTensors();
    tensors[6].as<int64_t>()[2] = wrong;
    s = codec->encode(viewsOf(tensors), out);
    EXPECT_EQ(s.code(), Code::InvalidArgument) << wrong;
    EXPECT_NE(s.message().find("'ranges.interferences'"), std::string::npos) << s.message();
  }
  tensors = featureTensors();
  tensors[0].as<std::string>()[0] = "\xff";
  EXPECT_NE(codec->encode(viewsOf(tensors), out).message().find("is not UTF-8"), std::string::npos);
  EXPECT_TRUE(out.empty());
}

TEST(ProtobufMessage, IsRefusedWhereTheSignatureDoesNotFit) {
  struct Case {
    TensorSpec spec;
    const char *expected;
  };
  const Case cases[] = {
      {TensorSpec::of<float>("nothing"), "regalloc.Everything has no field 'nothing'"},
      {TensorSpec::of<float>("a_int32"), "differ in type: the field is int32"},
      {TensorSpec::of<int32_t>("a_int32", {2}), "differ in shape: the field has one value"},
      {TensorSpec::of<int32_t>("r_int32"), "the field is repeated in 1 dimension"},
      {TensorSpec::of<int32_t>("r_int32", {Dynamic, Dynamic}), "two dynamic lengths"},
      {TensorSpec::of<int32_t>("left"), "part of a oneof"},
      {TensorSpec::of<int32_t>("table.value", {Dynamic}), "is a map"},
      {TensorSpec::of<int32_t>("a_int32.b"), "has no fields"},
      {TensorSpec::of<int64_t>("r_int32#lengths", {Dynamic}),
       "a tensor that the signature does not have"}};
  for (const Case &c : cases) {
    auto codec = make("regalloc.Everything", {c.spec});
    ASSERT_FALSE(codec) << c.expected;
    EXPECT_EQ(codec.status().code(), Code::Mismatch);
    const std::string &text = codec.status().message();
    EXPECT_NE(text.find(c.expected), std::string::npos) << text;
    EXPECT_NE(text.find(c.spec.toString()), std::string::npos) << text;
  }
  auto codec = make("regalloc.Advice", {TensorSpec::of<float>("node")});
  ASSERT_FALSE(codec);
  EXPECT_EQ(codec.status().message(),
            "protobuf: tensor 'node: float32' and the field 'sint64 node = 2' differ in type: the "
            "field is int64; the inputs (node: float32) do not fit regalloc.Advice: message Advice "
            "{ .regalloc.Action action = 1; sint64 node = 2; repeated string remarks = 3; }");
}

TEST(ProtobufMessage, NeedsAFileThatHasIt) {
  EXPECT_EQ(make("a.B", {}, "/no/such.proto").status().message(),
            "protobuf: there is no file '/no/such.proto'");
  const std::string text = make("a.B", {}).status().message();
  EXPECT_NE(text.find("has no message 'a.B'; it has regalloc.LiveRange"), std::string::npos)
      << text;
  const Status s = make("a.B", {}, sourceFile("README.md")).status();
  EXPECT_EQ(s.code(), Code::InvalidArgument);
  EXPECT_NE(s.message().find("README.md:"), std::string::npos) << s.message();
  Uri uri;
  uri.options = {{"serdes", "protobuf"}, {"proto", Proto}, {"request", "regalloc.Features"}};
  EXPECT_NE(serdesOf(uri).status().message().find("'reply' is missing"), std::string::npos);
  uri.options = {{"serdes", "bitstream"}, {"proto", Proto}};
  EXPECT_EQ(serdesOf(uri).status().message(), "serdes 'bitstream' takes no option 'proto'");
}

} // namespace
} // namespace mlbridge
