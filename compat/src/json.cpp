// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "json.h"

// Under a name of its own: a program may link this library and have another RapidJSON.
#define RAPIDJSON_NAMESPACE mlbridge_compat_rapidjson
#define RAPIDJSON_NAMESPACE_BEGIN namespace RAPIDJSON_NAMESPACE {
#define RAPIDJSON_NAMESPACE_END }
#include <rapidjson/error/en.h>
#include <rapidjson/memorystream.h>
#include <rapidjson/reader.h>
#include <rapidjson/stringbuffer.h>
#include <rapidjson/writer.h>

#include <charconv>
#include <cmath>
#include <limits>

namespace MLBridge::json {

namespace rapidjson = RAPIDJSON_NAMESPACE;

using mlbridge::Code;
using mlbridge::Expected;
using mlbridge::Status;
using rapidjson::SizeType;

namespace {

/// Told what a document holds, it keeps one member of the outermost object. It returns false, which
/// ends the reading, if that member isn't one value or an array of values of one kind.
class Member {
public:
  explicit Member(std::string_view name) : name_(name) {}

  bool isThere = false;
  Value value;

  bool Null() { return depth_ > 0 && !isWanted_; }
  bool Bool(bool b) { return keep<uint8_t>(Value::Kind::Bool, value.bools, b); }
  bool Int(int i) { return Int64(i); }
  bool Uint(unsigned u) { return Int64(u); }
  bool Int64(int64_t i) {
    if (isWanted_)
      value.reals.push_back(static_cast<double>(i));
    return keep(Value::Kind::Integer, value.integers, i);
  }
  bool Uint64(uint64_t u) {
    return u <= uint64_t(std::numeric_limits<int64_t>::max()) ? Int64(static_cast<int64_t>(u))
                                                              : Double(static_cast<double>(u));
  }
  bool RawNumber(const char *, SizeType, bool) { return false; } // not asked for
  bool Double(double d) { return keep(Value::Kind::Real, value.reals, d); }
  bool String(const char *text, SizeType size, bool) {
    return keep(Value::Kind::Text, value.texts, std::string(text, size));
  }
  bool StartObject() { return ++depth_ == 1 || !isWanted_; }
  bool Key(const char *text, SizeType size, bool) {
    if (depth_ != 1)
      return true;
    isWanted_ = std::string_view(text, size) == name_;
    if (isWanted_) {
      isThere = isFirst_ = true;
      value = {};
    }
    return true;
  }
  bool EndObject(SizeType) { return --depth_ >= 0; }
  bool StartArray() {
    ++depth_;
    value.isArray |= isWanted_;
    return isWanted_ ? depth_ == 2 : depth_ > 1;
  }
  bool EndArray(SizeType) { return --depth_ >= 0; }

private:
  template <typename T> bool keep(Value::Kind kind, std::vector<T> &values, T one) {
    if (!isWanted_)
      return depth_ > 0;
    if (isFirst_ || (kind == Value::Kind::Real && value.kind == Value::Kind::Integer))
      value.kind = kind;
    isFirst_ = false;
    values.push_back(std::move(one));
    return kind == value.kind || (kind == Value::Kind::Integer && value.kind == Value::Kind::Real);
  }

  std::string_view name_;
  int depth_ = 0;         ///< objects and arrays that are open
  bool isWanted_ = false; ///< in the member of that name
  bool isFirst_ = true;
};

} // namespace

void appendText(std::string &out, std::string_view text) {
  std::string valid;
  while (!text.empty()) {
    rapidjson::MemoryStream stream(text.data(), text.size());
    unsigned codePoint = 0;
    const bool isValid = rapidjson::UTF8<>::Decode(stream, &codePoint);
    const size_t size = isValid ? stream.Tell() : 1;
    valid += isValid ? text.substr(0, size) : "\xef\xbf\xbd";
    text.remove_prefix(size);
  }
  rapidjson::StringBuffer quoted;
  rapidjson::Writer<rapidjson::StringBuffer>(quoted).String(valid.data(),
                                                            static_cast<SizeType>(valid.size()));
  out.append(quoted.GetString(), quoted.GetSize());
}

void appendReal(std::string &out, double value) {
  if (!std::isfinite(value)) {
    out += std::isnan(value) ? "NaN" : value > 0 ? "Infinity" : "-Infinity";
    return;
  }
  char text[32];
  const auto written =
      std::to_chars(text, text + sizeof text, value, std::chars_format::general, 17);
  out.append(text, written.ptr);
}

Expected<Value> member(std::string_view document, std::string_view name) {
  constexpr unsigned Flags = rapidjson::kParseFullPrecisionFlag |
                             rapidjson::kParseIterativeFlag | // however deep a message is nested
                             rapidjson::kParseNanAndInfFlag | rapidjson::kParseValidateEncodingFlag;
  rapidjson::MemoryStream stream(document.data(), document.size());
  Member found(name);
  const rapidjson::ParseResult read = rapidjson::Reader().Parse<Flags>(stream, found);
  const size_t at = read.IsError() ? read.Offset() : stream.Tell();
  if (at != document.size() || read.IsError()) {
    const char *why = !read.IsError() ? "more follows"
                      : read.Code() == rapidjson::kParseErrorTermination
                          ? "there is no value, or array of values of one kind"
                          : rapidjson::GetParseError_En(read.Code());
    return Status(Code::Protocol,
                  "the reply is not JSON of the published form: " + std::string(why) + " (byte " +
                      std::to_string(at) + " of " + std::to_string(document.size()) + ")");
  }
  if (!found.isThere)
    return Status(Code::Protocol, "the reply has no member '" + std::string(name) + "'");
  return std::move(found.value);
}

} // namespace MLBridge::json
