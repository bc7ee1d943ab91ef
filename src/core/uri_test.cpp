// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <mlbridge/uri.h>

#include "core/nearest.h"

#include <gtest/gtest.h>

using namespace mlbridge;
using namespace std::chrono_literals;

TEST(Uri, TakesSchemePlaceAndOptions) {
  const Expected<Uri> uri = Uri::parse("unix:/run/policy.sock?serdes=json&wait=5s");
  ASSERT_TRUE(uri) << uri.status().toString();
  EXPECT_EQ(uri->scheme, "unix");
  EXPECT_EQ(uri->place, "/run/policy.sock");
  EXPECT_EQ(uri->option("serdes"), "json");
  EXPECT_EQ(uri->option("agent", "none"), "none");
  EXPECT_EQ(*uri->duration("wait", 0s), 5s);
}

TEST(Uri, OptionsMayAllBeginWithAQuestionMark) {
  const Expected<Uri> uri = Uri::parse("unix:/s?serdes=json?wait=5s&agent=a");
  ASSERT_TRUE(uri) << uri.status().toString();
  EXPECT_EQ(uri->option("serdes"), "json");
  EXPECT_EQ(uri->option("wait"), "5s");
  EXPECT_EQ(uri->option("agent"), "a");
}

TEST(Uri, PlacesNeedNoEscapes) {
  EXPECT_EQ(Uri::parse("onnx:a b:c&d=e#100%.onnx")->place, "a b:c&d=e#100%.onnx");
  EXPECT_EQ(Uri::parse("onnx:%3F%26%zz%4")->place, "?&%zz%4");
  EXPECT_EQ(Uri::parse("x:a?k=%26=%3F")->option("k"), "&=?");
  EXPECT_EQ(Uri::parse("pipe:")->place, "");
}

TEST(Uri, PrintsWhatParsesBackToTheSame) {
  for (const std::string place : {"", "/a/b", "a?b&c=d%41", "%", "%3F", "\n\x7f ü"})
    for (const std::string value : {"", "v", "a&b=c?d", "%41%", "\t"}) {
      Uri uri;
      uri.scheme = "x+y-1.z";
      uri.place = place;
      uri.options = {{"k", value}, {"other", "1"}};
      const Expected<Uri> back = Uri::parse(uri.toString());
      ASSERT_TRUE(back) << uri.toString() << ": " << back.status().toString();
      EXPECT_EQ(back->scheme, uri.scheme);
      EXPECT_EQ(back->place, place) << uri.toString();
      EXPECT_EQ(back->options, uri.options) << uri.toString();
    }
}

TEST(Uri, RefusesWhatIsMalformedAndSaysWhy) {
  const std::pair<std::string, const char *> bad[] = {
      {"", "no scheme"},
      {"policy.onnx", "no scheme"},
      {":x", "no scheme"},
      {"ONNX:x", "lower-case"},
      {"/tmp/a:b", "lower-case"},
      {"1x:y", "lower-case"},
      {"x:y?novalue", "KEY=VALUE"},
      {"x:y?=1", "KEY=VALUE"},
      {"x:y?a=1&a=2", "twice"},
      {"x:y?a=1&", "ends with"},
      {"x:y?a=1?", "ends with"},
      {"x:y?a b=1", "letters"},
      {"x:%00", "zero byte"},
      {"x:y?a=%00", "zero byte"},
  };
  for (const auto &[text, why] : bad) {
    const Expected<Uri> uri = Uri::parse(text);
    ASSERT_FALSE(uri) << text;
    EXPECT_EQ(uri.status().code(), Code::InvalidArgument);
    EXPECT_NE(uri.status().message().find(why), std::string::npos) << uri.status().toString();
  }
}

TEST(Uri, Durations) {
  EXPECT_EQ(*parseDuration("250ms"), 250ms);
  EXPECT_EQ(*parseDuration("100us"), 100us);
  EXPECT_EQ(*parseDuration("2m"), 2min);
  EXPECT_EQ(*parseDuration("0.5"), 500ms);
  EXPECT_EQ(*parseDuration("0"), 0s);
  for (const char *bad :
       {"", "s", "-1s", "+1s", "5 s", "5sec", "inf", "nan", "1e3", "1e400", "99999999999999"})
    EXPECT_EQ(parseDuration(bad).status().code(), Code::InvalidArgument) << bad;
  EXPECT_EQ(*Uri::parse("x:")->duration("wait", 7s), 7s);
  const Status status = Uri::parse("x:?wait=soon")->duration("wait", 7s).status();
  EXPECT_NE(status.message().find("option 'wait'"), std::string::npos);
}

TEST(Uri, Numbers) {
  const auto number = [](const char *text) {
    return Uri::parse(std::string("x:?n=") + text)->number("n", 1);
  };
  EXPECT_EQ(*number("0"), 0u);
  EXPECT_EQ(*number("256M"), uint64_t(256) << 20);
  EXPECT_EQ(*number("18446744073709551615"), UINT64_MAX);
  EXPECT_EQ(*Uri::parse("x:")->number("n", 9), 9u);
  for (const char *bad :
       {"", "M", "-1", "1.5", "1k", "1MB", "18446744073709551616", "17179869184G"})
    EXPECT_EQ(number(bad).status().code(), Code::InvalidArgument) << bad;
}

TEST(Uri, NamesTheNearestOption) {
  const Expected<Uri> uri = Uri::parse("unix:/x?serdse=json");
  EXPECT_TRUE(uri->allowOnly({"serdse"}));
  const Status status = uri->allowOnly({"wait", "serdes"});
  EXPECT_EQ(status.code(), Code::InvalidArgument);
  EXPECT_NE(status.message().find("'serdse'; did you mean 'serdes'?"), std::string::npos);
}

TEST(Nearest, OffersOnlyWhatIsNear) {
  const std::string_view known[] = {"onnx", "function", "pipe"};
  EXPECT_EQ(nearest("onx", known), "onnx");
  EXPECT_EQ(nearest("onxn", known), "onnx");
  EXPECT_EQ(nearest("fucntion", known), "function");
  EXPECT_EQ(nearest("grpc", known), "");
  EXPECT_EQ(nearest(std::string(100000, 'x'), known), "");
}
