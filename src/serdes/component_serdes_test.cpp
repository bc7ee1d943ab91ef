// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The library against a serdes component that does not keep its promises.
#include "serdes/serdes.h"
#include "testing/tensors.h"

#include <gtest/gtest.h>

namespace mlbridge {
namespace {

using namespace mlbridge::testing;

/// A component whose functions a test replaces.
struct Fake {
  mlb_serdes table = {
      sizeof(mlb_serdes),
      [](const mlb_tensor_spec *, uint64_t, void **codec, mlb_error *) -> mlb_code {
        static int anything;
        *codec = &anything;
        return 0;
      },
      [](void *) {},
      [](void *, const mlb_tensor *, mlb_buffer *, mlb_error *) -> mlb_code { return 0; },
      [](void *, const uint8_t *, uint64_t, const mlb_tensor_sink *, mlb_error *) -> mlb_code {
        return 0;
      },
      nullptr};
  std::vector<TensorSpec> specs = {TensorSpec::of<int32_t>("x", {2}),
                                   TensorSpec::of<std::string>("s", {Dynamic}, {3})};

  Expected<std::unique_ptr<Codec>> codec() {
    serdes = newComponentSerDes("fake", &table);
    return serdes->newCodec(specs);
  }
  Status decoded() {
    Tensors sink(specs);
    return decode(**codec(), "{}", sink);
  }
  std::unique_ptr<SerDes> serdes;
};

mlb_code say(mlb_error *error, std::string_view message, Code code) {
  error->size = std::min<uint64_t>(error->capacity, message.size());
  std::memcpy(error->text, message.data(), error->size);
  return static_cast<mlb_code>(code);
}

TEST(ComponentSerDes, PassesOnTheMessageOfTheComponent) {
  Fake fake;
  fake.table.create = [](const mlb_tensor_spec *, uint64_t, void **, mlb_error *error) {
    return say(error, "no strings here", Code::Unsupported);
  };
  Status s = fake.codec().status();
  EXPECT_EQ(s.code(), Code::Unsupported);
  EXPECT_EQ(s.message(), "fake: no strings here");
  fake.table.create = [](const mlb_tensor_spec *, uint64_t, void **, mlb_error *error) {
    return say(error, std::string(5000, 'x'), Code::Unsupported);
  };
  EXPECT_LE(fake.codec().status().message().size(), 1100u);
  fake.table.create = [](const mlb_tensor_spec *, uint64_t, void **, mlb_error *) -> mlb_code {
    return 4711;
  };
  EXPECT_EQ(fake.codec().status().code(), Code::Internal);
  fake.table.create = [](const mlb_tensor_spec *, uint64_t, void **, mlb_error *) -> mlb_code {
    return 0;
  };
  EXPECT_EQ(fake.codec().status().code(), Code::Internal) << "no codec";
}

TEST(ComponentSerDes, SeesATensorThatWasNotDelivered) {
  Status s = Fake().decoded();
  EXPECT_EQ(s.code(), Code::Internal);
  EXPECT_EQ(s.message(), "fake: the component did not deliver tensor 'x'");
}

TEST(ComponentSerDes, SeesWhatIsDeliveredWrongly) {
  using Decode = decltype(mlb_serdes::decode);
  struct Case {
    Decode decode;
    Code code;
    const char *expected;
  };
  const Case cases[] = {
      {[](void *, const uint8_t *, uint64_t, const mlb_tensor_sink *sink, mlb_error *error) {
         int64_t shape[] = {2};
         void *data = nullptr;
         (void)sink->numbers(sink->context, 0, shape, &data, error);
         return sink->numbers(sink->context, 0, shape, &data, error);
       },
       Code::Protocol, "'x' occurs twice"},
      {[](void *, const uint8_t *, uint64_t, const mlb_tensor_sink *sink, mlb_error *error) {
         int64_t shape[] = {3};
         void *data = nullptr;
         return sink->numbers(sink->context, 0, shape, &data, error);
       },
       Code::Protocol, "'x: int32[2]'"},
      {[](void *, const uint8_t *, uint64_t, const mlb_tensor_sink *sink, mlb_error *error) {
         int64_t shape[] = {2};
         return sink->strings(sink->context, 0, shape, error);
       },
       Code::Internal, "mistook the type of tensor 'x'"},
      {[](void *, const uint8_t *, uint64_t, const mlb_tensor_sink *sink, mlb_error *error) {
         int64_t shape[] = {1};
         void *data = nullptr;
         return sink->numbers(sink->context, 2, shape, &data, error);
       },
       Code::Internal, "delivered tensor 2 of 2"},
      {[](void *, const uint8_t *, uint64_t, const mlb_tensor_sink *sink, mlb_error *error) {
         return sink->string(sink->context, 1, 0, {"a", 1}, error);
       },
       Code::Internal, "delivered string 0 of tensor 1 unasked"},
      {[](void *, const uint8_t *, uint64_t, const mlb_tensor_sink *sink, mlb_error *error) {
         int64_t shape[] = {3};
         (void)sink->strings(sink->context, 1, shape, error);
         return sink->string(sink->context, 1, 3, {"a", 1}, error);
       },
       Code::Internal, "delivered string 3 of tensor 1 unasked"},
      {[](void *, const uint8_t *, uint64_t, const mlb_tensor_sink *sink, mlb_error *error) {
         int64_t shape[] = {4};
         return sink->strings(sink->context, 1, shape, error);
       },
       Code::Protocol, "maximum"},
  };
  for (const Case &c : cases) {
    Fake fake;
    fake.table.decode = c.decode;
    Status s = fake.decoded();
    EXPECT_EQ(s.code(), c.code) << s.toString();
    EXPECT_NE(s.message().find(c.expected), std::string::npos) << s.message();
  }
}

TEST(ComponentSerDes, GivesBackTheBufferAfterAFailure) {
  Fake fake;
  fake.table.encode = [](void *, const mlb_tensor *, mlb_buffer *out, mlb_error *error) {
    if (mlb_code code = out->reserve(out, out->size + 100000))
      return code;
    std::memset(out->data + out->size, 'x', 100000);
    out->size += 100000;
    return say(error, "changed my mind", Code::LimitExceeded);
  };
  auto codec = fake.codec();
  std::vector<Tensor> tensors;
  tensors.push_back(*Tensor::make(fake.specs[0], Shape{2}));
  tensors.push_back(*Tensor::make(fake.specs[1], Shape{1}));
  Buffer out;
  ASSERT_TRUE(out.append("ab", 2));
  Status s = (*codec)->encode(viewsOf(tensors), out);
  EXPECT_EQ(s.message(), "fake: changed my mind");
  EXPECT_EQ(textOf(out), "ab");
}

TEST(SerDesNamed, SaysWhatItLookedFor) {
  EXPECT_TRUE(serdesNamed("bitstream"));
  auto missing = serdesNamed("morse");
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.status().code(), Code::NotFound);
  EXPECT_NE(missing.status().message().find("libmlbridge-serdes-morse.so"), std::string::npos);
  EXPECT_EQ(serdesNamed("../../etc/x").status().code(), Code::InvalidArgument);
  EXPECT_EQ(serdesNamed("").status().code(), Code::InvalidArgument);
}

} // namespace
} // namespace mlbridge
