// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The duties of every serdes, whatever its bytes look like.
#include "testing/built.h"
#include "testing/tensors.h"

#include <atomic>
#include <gtest/gtest.h>
#include <thread>

namespace mlbridge {
namespace {

using namespace mlbridge::testing;

class SerDesConformance : public ::testing::TestWithParam<std::string> {
protected:
  void SetUp() override {
    Expected<const SerDes *> found = serdesNamed(GetParam());
    ASSERT_TRUE(found) << found.status().toString();
    serdes_ = *found;
  }
  std::unique_ptr<Codec> codec(Span<const TensorSpec> specs) {
    Expected<std::unique_ptr<Codec>> made = serdes_->newCodec(specs);
    EXPECT_TRUE(made) << made.status().toString();
    return made ? std::move(*made) : nullptr;
  }
  /// Writes and reads, and expects the same bits.
  void roundTrip(const std::vector<TensorSpec> &specs, std::vector<Tensor> &tensors) {
    std::unique_ptr<Codec> both = codec(specs);
    ASSERT_TRUE(both);
    Buffer message;
    Status s = both->encode(viewsOf(tensors), message);
    ASSERT_TRUE(s) << s.toString();
    Tensors read(specs);
    s = decode(*both, textOf(message), read);
    ASSERT_TRUE(s) << s.toString() << " in " << textOf(message);
    for (size_t i = 0; i < specs.size(); ++i) {
      EXPECT_EQ(read.prepared[i], 1) << specs[i].toString();
      EXPECT_TRUE(same(tensors[i], read.tensors[i]))
          << specs[i].toString() << " in " << textOf(message);
    }
  }

  const SerDes *serdes_ = nullptr;
};

/// Fills with the extremes of the type, over and over from `first`.
void fillExtremes(Tensor &tensor, size_t first) {
  TensorView view = tensor.view();
  auto fill = [&](const auto &zero, std::initializer_list<std::decay_t<decltype(zero)>> values) {
    auto to = view.as<std::decay_t<decltype(zero)>>();
    for (size_t k = 0; k < to.size(); ++k)
      to[k] = values.begin()[(first + k) % values.size()];
  };
  auto integers = [&](auto zero) {
    using L = std::numeric_limits<decltype(zero)>;
    fill(zero, {zero, L::min(), L::max(), decltype(zero)(1), decltype(zero)(L::min() + 1),
                decltype(zero)(L::max() - 1)});
  };
  auto bits = [&](auto zero, std::initializer_list<decltype(zero)> values) {
    auto *to = static_cast<decltype(zero) *>(view.data);
    for (size_t k = 0; k < view.count; ++k)
      to[k] = values.begin()[(first + k) % values.size()];
  };
  switch (view.type) {
  case ElementType::Int8:
    return integers(int8_t());
  case ElementType::Int16:
    return integers(int16_t());
  case ElementType::Int32:
    return integers(int32_t());
  case ElementType::Int64:
    return integers(int64_t());
  case ElementType::UInt8:
    return integers(uint8_t());
  case ElementType::UInt16:
    return integers(uint16_t());
  case ElementType::UInt32:
    return integers(uint32_t());
  case ElementType::UInt64:
    return integers(uint64_t());
  case ElementType::Float16: // zeros, subnormals, largest, infinities, NaNs
    return bits(uint16_t(), {0x0000, 0x8000, 0x0001, 0x03ff, 0x0400, 0x7bff, 0xfbff, 0x7c00, 0xfc00,
                             0x7e00, 0xfe00, 0x7c01, 0x3c00, 0x2e66});
  case ElementType::Float32:
    return bits(uint32_t(), {0, 0x80000000, 1, 0x007fffff, 0x00800000, 0x7f7fffff, 0xff7fffff,
                             0x7f800000, 0xff800000, 0x7fc00000, 0xffc00000, 0x7f800001, 0xffffffff,
                             0x3dcccccd, 0x4b800000, 0x47c35000, 0x47c34f80});
  case ElementType::Float64:
    return bits(uint64_t(),
                {0, 0x8000000000000000, 1, 0x000fffffffffffff, 0x0010000000000000,
                 0x7fefffffffffffff, 0xffefffffffffffff, 0x7ff0000000000000, 0xfff0000000000000,
                 0x7ff8000000000000, 0xfff8000000000000, 0x7ff0000000000001, 0xffffffffffffffff,
                 0x3fb999999999999a, 0x4340000000000000, 0x43e0000000000000, 0x4480000000000000});
  case ElementType::Bool:
    return bits(uint8_t(), {0, 1, 1});
  case ElementType::String:
    return fill(std::string(), {"", "a", std::string("\0", 1), "\"\\/\b\f\n\r\t\x1f", "\xc3\xa9",
                                "\xf0\x9f\x98\x80", std::string(5000, '\x01')});
  }
}

TEST_P(SerDesConformance, KeepsTheExtremesOfEveryTypeInEveryShape) {
  const std::vector<Shape> shapes = {{}, {1}, {0}, {17}, {3, 0, 2}, {2, 3, 5}, {1, 1, 1, 1}};
  for (ElementType type : AllTypes) {
    std::vector<TensorSpec> specs;
    std::vector<Tensor> tensors;
    for (size_t i = 0; i < 60; ++i) {
      TensorSpec spec{"t" + std::to_string(i), type, shapes[i % shapes.size()], {}};
      specs.push_back(spec);
      tensors.emplace_back(spec);
      fillExtremes(tensors.back(), i);
    }
    roundTrip(specs, tensors);
  }
}

TEST_P(SerDesConformance, KeepsTensorsOfChangingShape) {
  for (ElementType type : AllTypes)
    for (int64_t length : {0, 1, 3, 600}) {
      std::vector<TensorSpec> specs = {{"before", ElementType::Bool, {3}, {}},
                                       {"nodes", type, {Dynamic, 2}, {600, 0}},
                                       {"edges", type, {2, Dynamic, Dynamic}, {}},
                                       {"after", ElementType::Int64, {}, {}}};
      std::vector<Tensor> tensors;
      for (const Shape &shape : {Shape{3}, Shape{length, 2}, Shape{2, 1, length}, Shape{}}) {
        Expected<Tensor> made = Tensor::make(specs[tensors.size()], shape);
        ASSERT_TRUE(made) << made.status().toString();
        tensors.push_back(std::move(*made));
        fillExtremes(tensors.back(), 1);
      }
      roundTrip(specs, tensors);
    }
}

TEST_P(SerDesConformance, KeepsRandomTensors) {
  for (uint64_t seed = 1; seed <= 2000; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Random random(seed);
    std::vector<TensorSpec> specs = randomSpecs(random);
    std::vector<Tensor> tensors;
    tensors.reserve(specs.size());
    for (const TensorSpec &spec : specs)
      tensors.push_back(randomTensor(random, spec));
    roundTrip(specs, tensors);
    if (HasFailure())
      return;
  }
}

TEST_P(SerDesConformance, KeepsTenThousandTensors) {
  std::vector<TensorSpec> specs;
  std::vector<Tensor> tensors;
  for (int i = 0; i < 10000; ++i) {
    specs.push_back(TensorSpec::of<int64_t>("feature_" + std::to_string(i)));
    tensors.emplace_back(specs.back());
    tensors.back().as<int64_t>()[0] = i;
  }
  roundTrip(specs, tensors);
}

TEST_P(SerDesConformance, AppendsToWhatIsThere) {
  std::vector<TensorSpec> specs = {{"flag", ElementType::Bool, {}, {}},
                                   {"x", ElementType::Float64, {2}, {}}};
  std::vector<Tensor> tensors;
  tensors.reserve(specs.size());
  for (const TensorSpec &spec : specs)
    tensors.emplace_back(spec);
  std::unique_ptr<Codec> both = codec(specs);
  Buffer alone, after;
  ASSERT_TRUE(after.append("12345", 5));
  ASSERT_TRUE(both->encode(viewsOf(tensors), alone));
  ASSERT_TRUE(both->encode(viewsOf(tensors), after));
  EXPECT_EQ(textOf(after), "12345" + textOf(alone));
}

TEST_P(SerDesConformance, WritesTheSameMessageAroundLargeTensors) {
  std::vector<TensorSpec> specs = {
      TensorSpec::of<bool>("flag", {3}),         TensorSpec::of<float>("large", {5000}),
      TensorSpec::of<int8_t>("odd", {Dynamic}),  TensorSpec::of<bool>("none", {0}),
      TensorSpec::of<std::string>("words", {2}), TensorSpec::of<bool>("mask", {20001}),
      TensorSpec::of<double>("last", {3000})};
  std::vector<Tensor> tensors;
  for (const TensorSpec &spec : specs) {
    tensors.push_back(*Tensor::make(spec, spec.isDynamic() ? Shape{17001} : spec.shape));
    fillExtremes(tensors.back(), 0);
  }
  std::unique_ptr<Codec> both = codec(specs);
  Buffer whole;
  ASSERT_TRUE(both->encode(viewsOf(tensors), whole));
  for (size_t most = 0; most < 6; ++most) {
    Buffer out;
    std::vector<Codec::ExternalSpan> external;
    ASSERT_TRUE(out.append("12345678", 8));
    ASSERT_TRUE(both->encodeAround(viewsOf(tensors), out, most, external));
    EXPECT_LE(external.size(), most);
    std::string message = textOf(out);
    for (size_t i = external.size(); i-- > 0;)
      message.insert(external[i].offset, static_cast<const char *>(external[i].data),
                     external[i].bytes);
    EXPECT_EQ(message, "12345678" + textOf(whole)) << most;
  }
}

TEST_P(SerDesConformance, OffersNumbersWhereTheyLie) {
  class Adopting : public Tensors {
  public:
    using Tensors::Tensors;
    bool adopt(size_t index, Span<const int64_t> shape, const uint8_t *data) override {
      EXPECT_EQ(reinterpret_cast<uintptr_t>(data) % 8, 0u);
      Expected<TensorView> view = prepare(index, shape);
      EXPECT_TRUE(view) << view.status().toString();
      if (view->bytes())
        std::memcpy(view->data, data, view->bytes());
      return true;
    }
  };
  Random random(9);
  std::vector<TensorSpec> specs;
  while (specs.size() < 4)
    specs = randomSpecs(random);
  std::vector<Tensor> tensors;
  tensors.reserve(specs.size());
  for (const TensorSpec &spec : specs)
    tensors.push_back(randomTensor(random, spec));
  std::unique_ptr<Codec> both = codec(specs);
  Buffer message;
  ASSERT_TRUE(both->encode(viewsOf(tensors), message));
  Adopting read(specs);
  Status s = both->decode(message.span(), read);
  ASSERT_TRUE(s) << s.toString();
  for (size_t i = 0; i < specs.size(); ++i) {
    EXPECT_EQ(read.prepared[i], 1);
    EXPECT_TRUE(same(tensors[i], read.tensors[i])) << specs[i].toString();
  }
}

/// One message with a bit of everything, and its specs.
class Sample {
public:
  explicit Sample(const SerDes &serdes) {
    specs = {{"step", ElementType::UInt64, {}, {}},
             {"mask", ElementType::Bool, {5}, {}},
             {"nodes", ElementType::Float32, {Dynamic, 2}, {8, 0}},
             {"names", ElementType::String, {2}, {}},
             {"words", ElementType::String, {Dynamic}, {}},
             {"bytes", ElementType::UInt8, {3}, {}}};
    const std::vector<Shape> shapes = {{}, {5}, {3, 2}, {2}, {2}, {3}};
    for (size_t i = 0; i < specs.size(); ++i) {
      tensors.push_back(*Tensor::make(specs[i], shapes[i]));
      fillExtremes(tensors.back(), i);
    }
    codec = std::move(*serdes.newCodec(specs));
    Buffer out;
    written = codec->encode(viewsOf(tensors), out);
    message = textOf(out);
  }
  std::vector<TensorSpec> specs;
  std::vector<Tensor> tensors;
  std::unique_ptr<Codec> codec;
  Status written;
  std::string message;
};

TEST_P(SerDesConformance, RefusesAMessageCutAnywhere) {
  Sample sample(*serdes_);
  ASSERT_TRUE(sample.written) << sample.written.toString();
  for (size_t size = 0; size < sample.message.size(); ++size)
    for (uint8_t after : {0x00, 0x7d, 0x5d, 0x22, 0xff}) {
      Tensors sink(sample.specs);
      Status s =
          decode(*sample.codec, std::string_view(sample.message).substr(0, size), sink, after);
      ASSERT_EQ(s.code(), Code::Protocol) << size << " bytes: " << s.toString();
      ASSERT_NE(s.message().find(GetParam()), std::string::npos) << s.message();
      ASSERT_EQ(s.message().find('\n'), std::string::npos) << s.message();
    }
}

TEST_P(SerDesConformance, RefusesBytesAfterTheMessage) {
  Sample sample(*serdes_);
  for (std::string_view more : {std::string_view("\0", 1), std::string_view("x"),
                                std::string_view("}"), std::string_view("{}")}) {
    Tensors sink(sample.specs);
    Status s = decode(*sample.codec, sample.message + std::string(more), sink);
    EXPECT_EQ(s.code(), Code::Protocol) << s.toString();
  }
  Tensors sink(sample.specs);
  EXPECT_EQ(decode(*sample.codec, sample.message + sample.message, sink).code(), Code::Protocol);
}

TEST_P(SerDesConformance, SurvivesEveryChangedByte) {
  Sample sample(*serdes_);
  for (size_t at = 0; at < sample.message.size(); ++at)
    for (int bit = 0; bit < 9; ++bit) {
      std::string damaged = sample.message;
      damaged[at] = static_cast<char>(bit == 8 ? 0xff : damaged[at] ^ (1 << bit));
      Tensors sink(sample.specs);
      Status s = decode(*sample.codec, damaged, sink);
      ASSERT_TRUE(s || s.code() == Code::Protocol) << at << ": " << s.toString();
      ASSERT_LE(sink.largest, damaged.size());
      for (size_t i = 0; s && i < sample.specs.size(); ++i)
        ASSERT_EQ(sink.prepared[i], 1) << at;
    }
}

TEST_P(SerDesConformance, SurvivesRandomBytes) {
  Sample sample(*serdes_);
  Random random(7);
  for (int round = 0; round < 3000; ++round) {
    std::string noise(below(random, 200), '\0');
    for (char &c : noise)
      c = round % 2 ? static_cast<char>(random()) : "{}[],:\"0123e-.\\tfn "[below(random, 19)];
    Tensors sink(sample.specs);
    ASSERT_EQ(decode(*sample.codec, noise, sink).code(), Code::Protocol);
  }
}

TEST_P(SerDesConformance, RefusesTensorsThatAreNotThoseOfTheSpecs) {
  std::vector<TensorSpec> specs = {TensorSpec::of<float>("x", {Dynamic}, {4})};
  std::unique_ptr<Codec> both = codec(specs);
  Buffer out;
  auto encode = [&](std::vector<Tensor> tensors) {
    Status s = both->encode(viewsOf(tensors), out);
    EXPECT_TRUE(out.empty());
    return s;
  };
  EXPECT_EQ(encode({}).code(), Code::InvalidArgument);
  std::vector<Tensor> wrongType(1), tooLong(1), wrongRank(1);
  wrongType[0] = Tensor(TensorSpec::of<double>("x", {2}));
  tooLong[0] = Tensor(TensorSpec::of<float>("x", {5}));
  wrongRank[0] = Tensor(TensorSpec::of<float>("x", {2, 2}));
  Status s = encode(std::move(wrongType));
  EXPECT_EQ(s.code(), Code::InvalidArgument);
  EXPECT_NE(s.message().find("'x' is float32, got float64"), std::string::npos) << s.message();
  s = encode(std::move(tooLong));
  EXPECT_EQ(s.code(), Code::InvalidArgument);
  EXPECT_NE(s.message().find("'x:"), std::string::npos) << s.message();
  EXPECT_EQ(encode(std::move(wrongRank)).code(), Code::InvalidArgument);
}

TEST_P(SerDesConformance, RefusesABoolThatIsNeitherTrueNorFalse) {
  std::vector<TensorSpec> specs = {TensorSpec::of<bool>("mask", {3})};
  std::unique_ptr<Codec> both = codec(specs);
  uint8_t bytes[3] = {1, 0, 2};
  int64_t shape[] = {3};
  TensorView view{ElementType::Bool, bytes, 3, shape};
  Buffer out;
  ASSERT_TRUE(out.append("ab", 2));
  Status s = both->encode({&view, 1}, out);
  EXPECT_EQ(s.code(), Code::InvalidArgument);
  EXPECT_NE(s.message().find("'mask' element 2 is 2"), std::string::npos) << s.message();
  EXPECT_EQ(textOf(out), "ab");
}

TEST_P(SerDesConformance, RefusesSpecsThatAreNotValid) {
  EXPECT_FALSE(serdes_->newCodec(std::vector<TensorSpec>{TensorSpec::of<float>("")}));
  EXPECT_FALSE(serdes_->newCodec(std::vector<TensorSpec>{TensorSpec::of<float>("x", {-2})}));
  EXPECT_FALSE(serdes_->newCodec(
      std::vector<TensorSpec>{TensorSpec::of<float>("x", {int64_t(1) << 40, int64_t(1) << 40})}));
}

TEST_P(SerDesConformance, PassesOnWhatTheSinkSays) {
  class Full : public TensorSink {
    Expected<TensorView> prepare(size_t, Span<const int64_t>) override {
      return Status(Code::LimitExceeded, "the sink is full");
    }
  } full;
  Sample sample(*serdes_);
  Status s = decode(*sample.codec, sample.message, full);
  EXPECT_EQ(s.code(), Code::LimitExceeded);
  EXPECT_NE(s.message().find("the sink is full"), std::string::npos) << s.message();
}

TEST_P(SerDesConformance, OneCodecServesManyThreads) {
  Sample sample(*serdes_);
  std::atomic<int> good{0};
  std::vector<std::thread> threads;
  threads.reserve(8);
  for (int t = 0; t < 8; ++t)
    threads.emplace_back([&] {
      std::vector<TensorView> views = viewsOf(sample.tensors);
      for (int round = 0; round < 200; ++round) {
        Buffer out;
        Tensors read(sample.specs);
        if (sample.codec->encode(views, out) && textOf(out) == sample.message &&
            sample.codec->decode(out.span(), read) && same(sample.tensors[3], read.tensors[3]))
          ++good;
      }
    });
  for (std::thread &thread : threads)
    thread.join();
  EXPECT_EQ(good, 8 * 200);
}

INSTANTIATE_TEST_SUITE_P(All, SerDesConformance, ::testing::ValuesIn(serdes()), nameOf);

} // namespace
} // namespace mlbridge
