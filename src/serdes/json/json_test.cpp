// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The text of the JSON format, what else is accepted, and what it says about wrong messages.
#include "testing/tensors.h"

#include <cmath>
#include <gtest/gtest.h>

namespace mlbridge {
namespace {

using namespace mlbridge::testing;

std::unique_ptr<Codec> codecOf(const std::vector<TensorSpec> &specs) {
  auto serdes = serdesNamed("json");
  EXPECT_TRUE(serdes) << serdes.status().toString();
  auto codec = (*serdes)->newCodec(specs);
  EXPECT_TRUE(codec) << codec.status().toString();
  return std::move(*codec);
}

template <typename T> std::string written(std::initializer_list<T> values) {
  Tensor tensor(TensorSpec::of<T>("x", {static_cast<int64_t>(values.size())}));
  std::copy(values.begin(), values.end(), tensor.as<T>().begin());
  TensorView view = tensor.view();
  Buffer out;
  Status s = codecOf({tensor.spec()})->encode({&view, 1}, out);
  return s ? textOf(out) : s.toString();
}

float fromBits(uint32_t bits) {
  float value;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}
double fromBits(uint64_t bits) {
  double value;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

TEST(Json, WritesTheShortestNumbers) {
  const double inf = HUGE_VAL;
  EXPECT_EQ(written<int64_t>({INT64_MIN, INT64_MAX, 0}),
            R"({"x":[-9223372036854775808,9223372036854775807,0]})");
  EXPECT_EQ(written<uint64_t>({UINT64_MAX}), R"({"x":[18446744073709551615]})");
  EXPECT_EQ(written<int8_t>({-128, 127}), R"({"x":[-128,127]})");
  EXPECT_EQ(written<uint8_t>({65}), R"({"x":[65]})");
  EXPECT_EQ(written<bool>({true, false}), R"({"x":[true,false]})");
  EXPECT_EQ(written<float>({0.1f, 1.0f, -1.5f, 99999.0f, 100000.0f, 120000.0f, 16777216.0f, 1e-7f,
                            3.4028235e38f, 1e-45f}),
            R"({"x":[0.1,1,-1.5,99999,1e+05,120000,16777216,1e-07,3.4028235e+38,1e-45]})");
  EXPECT_EQ(written<float>({0.0f, -0.0f}), R"({"x":[0,-0.0]})");
  EXPECT_EQ(written<double>({0.1, 1.7976931348623157e308, 5e-324, -0.0}),
            R"({"x":[0.1,1.7976931348623157e+308,5e-324,-0.0]})");
  EXPECT_EQ(written<Half>({Half{0x2e66}, Half{0x7bff}, Half{0x8000}, Half{0x0001}}),
            R"({"x":[0.099975586,65504,-0.0,5.9604645e-08]})");
  EXPECT_EQ(written<float>({float(inf), -float(inf), fromBits(0x7fc00000u), fromBits(0xffc00000u),
                            fromBits(0x7f800001u)}),
            R"({"x":["Infinity","-Infinity","NaN","NaN:ffc00000","NaN:7f800001"]})");
  EXPECT_EQ(written<double>({inf, fromBits(uint64_t(0x7ff8000000000000)),
                             fromBits(uint64_t(0xfff8000000000001))}),
            R"({"x":["Infinity","NaN","NaN:fff8000000000001"]})");
  EXPECT_EQ(written<Half>({Half{0xfc00}, Half{0x7e00}, Half{0x7c01}}),
            R"({"x":["-Infinity","NaN","NaN:7c01"]})");
}

TEST(Json, WritesAnObjectInTheOrderOfTheSpecs) {
  std::vector<TensorSpec> specs = {
      TensorSpec::of<std::string>("b\"\n"), TensorSpec::of<float>("a", {Dynamic, 2}),
      TensorSpec::of<int32_t>("m", {2, 2}), TensorSpec::of<bool>("none", {0})};
  std::vector<Tensor> tensors;
  for (const Shape &shape : {Shape{}, Shape{1, 2}, Shape{2, 2}, Shape{0}})
    tensors.push_back(*Tensor::make(specs[tensors.size()], shape));
  tensors[0].as<std::string>()[0] = std::string("\0\x1f\"\\/\b\f\n\r\t\x7f\xc3\xa9", 13);
  tensors[2].as<int32_t>()[3] = 4;
  Buffer out;
  ASSERT_TRUE(codecOf(specs)->encode(viewsOf(tensors), out));
  EXPECT_EQ(textOf(out), "{\"b\\\"\\n\":\"\\u0000\\u001f\\\"\\\\/\\b\\f\\n\\r\\t\x7f\xc3\xa9\","
                         "\"a\":{\"shape\":[1,2],\"data\":[0,0]},\"m\":[0,0,0,4],\"none\":[]}");
}

TEST(Json, RefusesTextThatIsNotUtf8) {
  for (std::string bad : {"\xff", "a\xc3", "\xed\xa0\x80", "\xc0\x80", "\xf4\x90\x80\x80"}) {
    std::vector<Tensor> tensors(1, Tensor(TensorSpec::of<std::string>("names", {2})));
    tensors[0].as<std::string>()[1] = bad;
    Buffer out;
    Status s = codecOf({tensors[0].spec()})->encode(viewsOf(tensors), out);
    EXPECT_EQ(s.code(), Code::InvalidArgument);
    EXPECT_EQ(s.message(),
              "json: tensor 'names' element 1 is not UTF-8, which JSON strings must be");
    EXPECT_TRUE(out.empty());
  }
  EXPECT_FALSE(
      (*serdesNamed("json"))->newCodec(std::vector<TensorSpec>{TensorSpec::of<bool>("\xff")}));
}

TEST(Json, ReadsWhatOthersWrite) {
  std::vector<TensorSpec> specs = {TensorSpec::of<float>("f", {3}), TensorSpec::of<int64_t>("i"),
                                   TensorSpec::of<std::string>("s"),
                                   TensorSpec::of<uint8_t>("d", {Dynamic, 1})};
  for (
      std::string_view text :
      {R"({"f":[1.0,-0,2.5e0],"i":-5,"s":"aé€😀","d":{"shape":[2,1],"data":[7,8]}})",
       R"( { "d" : { "data" : [ 7 , 8 ] , "shape" : [ 2 , 1 ] } , "s" : "a\u00e9\u20AC\ud83d\ude00",
              "i":-5, "f":[1,-0.0,25E-1] } )",
       "{\"\\u0066\":[1e0,-0e5,2.50],\"\\u0073\":\"a\\u00e9€😀\",\"i\":-5,"
       "\"d\":{\"dat\\u0061\":[7,8],\"sh\\u0061pe\":[2,1]}}\n\t\r "}) {
    Tensors sink(specs);
    Status s = decode(*codecOf(specs), text, sink);
    ASSERT_TRUE(s) << s.toString();
    auto f = sink.tensors[0].as<float>();
    EXPECT_EQ(f[0], 1.0f);
    EXPECT_EQ(f[1], 0.0f);
    EXPECT_TRUE(std::signbit(f[1]));
    EXPECT_EQ(f[2], 2.5f);
    EXPECT_EQ(sink.tensors[1].as<int64_t>()[0], -5);
    EXPECT_EQ(sink.tensors[2].as<std::string>()[0], "aé€😀");
    EXPECT_EQ(sink.tensors[3].as<uint8_t>()[1], 8);
    for (int count : sink.prepared)
      EXPECT_EQ(count, 1);
  }
}

struct Wrong {
  TensorSpec spec;
  std::string message;
  std::string expected;
};

TEST(Json, SaysWhereAMessageIsWrong) {
  const TensorSpec f = TensorSpec::of<float>("x", {2}), d = TensorSpec::of<double>("x"),
                   i8 = TensorSpec::of<int8_t>("x", {1}), i64 = TensorSpec::of<int64_t>("x"),
                   u64 = TensorSpec::of<uint64_t>("x"), b = TensorSpec::of<bool>("x"),
                   h = TensorSpec::of<Half>("x"), s = TensorSpec::of<std::string>("x", {1}),
                   dyn = TensorSpec::of<float>("x", {Dynamic, 2}, {9, 0});
  const Wrong table[] = {
      {f, "", "not valid JSON"},
      {f, "  ", "not valid JSON"},
      {f, "[]", "expected an object with a member for each tensor, got []"},
      {f, "3", "expected an object"},
      {f, "{}", "tensor 'x' is missing"},
      {f, R"({"x":[1,2],"x":[1,2]})", "tensor 'x' occurs twice"},
      {f, R"({"x":[1,2],"y":[1,2]})", "unknown tensor 'y'"},
      {f, R"({"X":[1,2]})", "unknown tensor 'X'"},
      {f, R"({"x":[1,2]} {})", "unexpected data after the object"},
      {f, R"({"x":[1,2],})", "not valid JSON"},
      {f, R"({"x":[1,2)", "not valid JSON"},
      {f, R"({"x":[1,2})", "tensor 'x' has more than the expected 2 elements"},
      {f, R"({"x":[1})", "tensor 'x' element 1: not valid JSON"},
      {f, R"({"x":[1 2]})", "not valid JSON"},
      {f, R"({"x":[1,,2]})", "tensor 'x' element 1: expected float32, got ,"},
      {f, R"({"x":[1,2,]})", "tensor 'x' has more than the expected 2 elements"},
      {f, R"({"x":[1]})", "tensor 'x' has 1 element, expected 2"},
      {f, R"({"x":[]})", "tensor 'x' has 0 elements, expected 2"},
      {f, R"({"x":[1,2,3]})", "tensor 'x' has more than the expected 2 elements"},
      {f, R"({"x":1})", "tensor 'x': expected an array of 2 elements, got 1"},
      {f, R"({"x":null})", "tensor 'x': expected an array of 2 elements, got null"},
      {f, R"({"x":{"shape":[2],"data":[1,2]}})", "tensor 'x': expected an array of 2 elements"},
      {f, R"({"x":[1,"2"]})", R"(tensor 'x' element 1: expected float32, got "2")"},
      {f, R"({"x":[1,[2]]})", "tensor 'x' element 1: expected float32, got ["},
      {f, R"({"x":[1,null]})", "tensor 'x' element 1: expected float32, got null"},
      {f, R"({"x":[1,NaN]})", "tensor 'x' element 1: expected float32, got NaN"},
      {f, R"({"x":[1,1e39]})", "tensor 'x' element 1: expected float32, got 1e39"},
      {f, R"({"x":[1,3.4028236e38]})", "tensor 'x' element 1: expected float32"},
      {f, R"({"x":[1,1e999]})", "tensor 'x' element 1: expected float32, got 1e999"},
      {f, R"({"x":[1,01]})", "tensor 'x' element 1: expected float32, got 01"},
      {f, R"({"x":[1,.5]})", "tensor 'x' element 1: expected float32, got .5"},
      {f, R"({"x":[1,5.]})", "tensor 'x' element 1: expected float32, got 5."},
      {f, R"({"x":[1,+5]})", "tensor 'x' element 1: expected float32, got +5"},
      {f, R"({"x":[1,-]})", "tensor 'x' element 1: expected float32, got -"},
      {f, R"({"x":[1,0x10]})", "tensor 'x' element 1: expected float32, got 0x10"},
      {f, R"({"x":[1,"NaN:7fc0000"]})", "tensor 'x' element 1: expected float32"},
      {f, R"({"x":[1,"NaN:7fc000000"]})", "tensor 'x' element 1: expected float32"},
      {f, R"({"x":[1,"NaN:7f800000"]})", "tensor 'x' element 1: expected float32"},
      {f, R"({"x":[1,"NaN:3f800000"]})", "tensor 'x' element 1: expected float32"},
      {f, R"({"x":[1,"NaN:7fg00001"]})", "tensor 'x' element 1: expected float32"},
      {f, R"({"x":[1,"infinity"]})", "tensor 'x' element 1: expected float32"},
      {d, R"({"x":1e309})", "tensor 'x': expected float64, got 1e309"},
      {d, R"({"x":0.1234567890123456789012e310})", "tensor 'x': expected float64, got 0.12345678"},
      {h, R"({"x":65520})", "tensor 'x': expected float16, got 65520"},
      {i8, R"({"x":[128]})", "tensor 'x' element 0: expected int8, got 128"},
      {i8, R"({"x":[-129]})", "tensor 'x' element 0: expected int8, got -129"},
      {i8, R"({"x":[1.5]})", "tensor 'x' element 0: expected int8, got 1.5"},
      {i8, R"({"x":[1e1]})", "tensor 'x' element 0: expected int8, got 1e1"},
      {i8, R"({"x":[1.0]})", "tensor 'x' element 0: expected int8, got 1.0"},
      {i8, R"({"x":[true]})", "tensor 'x' element 0: expected int8, got true"},
      {i8, R"({"x":["1"]})", R"(tensor 'x' element 0: expected int8, got "1")"},
      {i64, R"({"x":9223372036854775808})", "tensor 'x': expected int64, got 9223372036854775808"},
      {i64, R"({"x":-9223372036854775809})", "tensor 'x': expected int64"},
      {i64, R"({"x":[1]})", "tensor 'x': expected int64, got ["},
      {u64, R"({"x":18446744073709551616})", "tensor 'x': expected uint64, got 1844674407370955"},
      {u64, R"({"x":-1})", "tensor 'x': expected uint64, got -1"},
      {b, R"({"x":1})", "tensor 'x': expected bool, got 1"},
      {b, R"({"x":tru})", "tensor 'x': expected bool, got tru"},
      {b, R"({"x":truex})", "tensor 'x': expected bool, got truex"},
      {s, R"({"x":[1]})", "tensor 'x' element 0: expected string, got 1"},
      {s, R"({"x":["\ud800"]})", "tensor 'x' element 0: not valid JSON"},
      {s, R"({"x":["\udc00"]})", "tensor 'x' element 0: not valid JSON"},
      {s, R"({"x":["\ud800\u0041"]})", "tensor 'x' element 0: not valid JSON"},
      {s, R"({"x":["\x"]})", "tensor 'x' element 0: not valid JSON"},
      {s, "{\"x\":[\"\xff\"]}", "not valid JSON"},
      {s, "{\"x\":[\"\n\"]}", "not valid JSON"},
      {s, R"({"x":["a]})", "not valid JSON"},
      {dyn, R"({"x":[1,2]})", R"(tensor 'x': expected {"shape":[...],"data":[...]}, got [)"},
      {dyn, R"({"x":{"shape":[1,2]}})", "tensor 'x' has no member 'data'"},
      {dyn, R"({"x":{"data":[1,2]}})", "tensor 'x' has no member 'shape'"},
      {dyn, R"({"x":{}})", "tensor 'x' has no member 'shape'"},
      {dyn, R"({"x":{"shape":[1,2],"data":[1,2],"data":[1,2]}})", "the member 'data' twice"},
      {dyn, R"({"x":{"shape":[1,2],"shape":[1,2],"data":[1,2]}})", "the member 'shape' twice"},
      {dyn, R"({"x":{"shape":[1,2],"data":[1,2],"kind":1}})", "the unknown member 'kind'"},
      {dyn, R"({"x":{"data":[1],"shape":[1,2]}})", "tensor 'x' has 1 element, expected 2"},
      {dyn, R"({"x":{"shape":[2],"data":[1,2]}})", "tensor 'x' shape has 1 lengths, expected 2"},
      {dyn, R"({"x":{"shape":[1,2,1],"data":[1,2]}})", "tensor 'x' shape has too many lengths"},
      {dyn, R"({"x":{"shape":[1,3],"data":[1,2,3]}})", "tensor 'x' dimension 1: expected 2, got 3"},
      {dyn, R"({"x":{"shape":[-1,2],"data":[]}})", "dimension 0: expected a length, got -1"},
      {dyn, R"({"x":{"shape":[1.0,2],"data":[1,2]}})", "dimension 0: expected a length, got 1.0"},
      {dyn, R"({"x":{"shape":[10,2],"data":[]}})", "dimension 0: expected at most 9, got 10"},
      {dyn, R"({"x":{"shape":3,"data":[]}})", "tensor 'x' shape: expected an array of 2 lengths"},
      {dyn, R"({"x":{"shape":[2,2],"data":[1,2,3]}})", "tensor 'x' has 3 elements, expected 4"},
      {TensorSpec::of<float>("x", {Dynamic}), R"({"x":{"shape":[1152921504606846976],"data":[]}})",
       "tensor 'x' has more elements than any message: its shape is [1152921504606846976]"},
      {TensorSpec::of<float>("x", {Dynamic, Dynamic}),
       R"({"x":{"shape":[4294967296,4294967296],"data":[]}})",
       "its shape is [4294967296, 4294967296]"},
      {TensorSpec::of<float>("x", {Dynamic}), R"({"x":{"shape":[100000],"data":[]}})",
       "tensor 'x' needs 100000 elements, the message has 34 bytes"},
  };
  for (const Wrong &wrong : table) {
    std::vector<TensorSpec> specs = {wrong.spec};
    Tensors sink(specs);
    Status status = decode(*codecOf(specs), wrong.message, sink);
    EXPECT_EQ(status.code(), Code::Protocol) << wrong.message << ": " << status.toString();
    EXPECT_EQ(status.message().rfind("json: ", 0), 0u) << status.message();
    EXPECT_NE(status.message().find(wrong.expected), std::string::npos)
        << wrong.message << "\n  " << status.message() << "\n  " << wrong.expected;
    EXPECT_LE(sink.largest, wrong.message.size());
  }
}

TEST(Json, RefusesDeepNestingAtOnce) {
  std::vector<TensorSpec> specs = {TensorSpec::of<float>("x", {2})};
  for (std::string open : {"[", "{\"x\":", "{\"y\":[", "{\"x\":[1,[["}) {
    std::string message = "{\"x\":";
    for (int depth = 0; depth < 100000; ++depth)
      message += open;
    Tensors sink(specs);
    EXPECT_EQ(decode(*codecOf(specs), message + "}", sink).code(), Code::Protocol);
  }
}

TEST(Json, ReadsAFloatAsRoundedOnce) {
  // Decimals around the middle of two floats, where rounding to double first goes wrong.
  std::vector<TensorSpec> specs = {TensorSpec::of<float>("x")};
  auto codec = codecOf(specs);
  Random random(3);
  int differ = 0;
  for (int round = 0; round < 20000; ++round) {
    uint32_t bits = static_cast<uint32_t>(random()) & 0x7fffffff;
    if (round % 4 == 0)
      bits &= 0x00ffffff; // subnormal and the smallest normal
    float low = fromBits(bits);
    if (!std::isfinite(low) || !std::isfinite(fromBits(bits + 1)))
      continue;
    double middle = (double(low) + double(fromBits(bits + 1))) / 2;
    char text[1200];
    int size = std::snprintf(text, sizeof text, "%.800g", middle);
    std::string digits(text, static_cast<size_t>(size));
    size_t exponent = std::min(digits.find('e'), digits.size());
    if (digits.find('.') >= exponent)
      digits.insert(exponent, "."), ++exponent;
    if (round % 2)
      digits.insert(exponent, "00000000000000000000000000001"); // just above the middle
    else
      digits.insert(exponent, "0");
    Tensors sink(specs);
    Status s = decode(*codec, "{\"x\":" + digits + "}", sink);
    ASSERT_TRUE(s) << s.toString() << digits;
    float expected = std::strtof(digits.c_str(), nullptr);
    ASSERT_EQ(sink.tensors[0].as<float>()[0], expected) << digits;
    differ += expected != static_cast<float>(std::strtod(digits.c_str(), nullptr));
  }
  EXPECT_GT(differ, 1000) << "the cases do not show the difference";
}

TEST(Json, ReadsNumbersOfManyDigitsAfterZeros) {
  std::vector<TensorSpec> specs = {TensorSpec::of<double>("x")};
  auto codec = codecOf(specs);
  Random random(5);
  for (int round = 0; round < 20000; ++round) {
    std::string text = round % 2 ? "0." : "-0.";
    text.append(below(random, 30), '0');
    for (uint64_t n = below(random, 40); n > 0; --n)
      text += static_cast<char>('0' + below(random, 10));
    text += round % 3 ? "1" : "9e-" + std::to_string(below(random, 400));
    Tensors sink(specs);
    Status s = decode(*codec, "{\"x\":" + text + "}", sink);
    ASSERT_TRUE(s) << s.toString() << text;
    ASSERT_EQ(sink.tensors[0].as<double>()[0], std::strtod(text.c_str(), nullptr)) << text;
  }
}

TEST(Json, ReadsDoublesOfManyDigitsExactly) {
  std::vector<TensorSpec> specs = {TensorSpec::of<double>("x")};
  auto codec = codecOf(specs);
  Random random(4);
  for (int round = 0; round < 20000; ++round) {
    double value = fromBits(random());
    if (!std::isfinite(value))
      continue;
    char text[1200];
    std::snprintf(text, sizeof text, "%.*e", static_cast<int>(below(random, 60)), value);
    double expected = std::strtod(text, nullptr);
    if (!std::isfinite(expected))
      continue;
    Tensors sink(specs);
    Status s = decode(*codec, "{\"x\":" + std::string(text) + "}", sink);
    ASSERT_TRUE(s) << s.toString() << text;
    ASSERT_EQ(sink.tensors[0].as<double>()[0], expected) << text;
  }
}

TEST(Json, KeepsEveryHalf) {
  std::vector<TensorSpec> specs = {TensorSpec::of<Half>("x", {65536})};
  std::vector<Tensor> tensors(1, Tensor(specs[0]));
  for (size_t bits = 0; bits < 65536; ++bits)
    tensors[0].as<Half>()[bits] = Half{static_cast<uint16_t>(bits)};
  Buffer out;
  auto codec = codecOf(specs);
  ASSERT_TRUE(codec->encode(viewsOf(tensors), out));
  Tensors sink(specs);
  ASSERT_TRUE(codec->decode(out.span(), sink));
  EXPECT_TRUE(same(tensors[0], sink.tensors[0]));
}

} // namespace
} // namespace mlbridge
