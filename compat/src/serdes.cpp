// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The SerDes of the 2024 release: JSON, bitstream, and which kind is made by whom.
#include "SerDes/baseSerDes.h"
#include "SerDes/bitstreamSerDes.h"
#include "SerDes/jsonSerDes.h"

// Under a name of its own: a program may link this library and have another RapidJSON.
#define RAPIDJSON_NAMESPACE mlbridge_compat_rapidjson
#define RAPIDJSON_NAMESPACE_BEGIN namespace RAPIDJSON_NAMESPACE {
#define RAPIDJSON_NAMESPACE_END }
#include <rapidjson/error/en.h>
#include <rapidjson/memorystream.h>
#include <rapidjson/reader.h>
#include <rapidjson/stringbuffer.h>
#include <rapidjson/writer.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <iterator>
#include <limits>
#include <mutex>

namespace MLBridge {

namespace rapidjson = RAPIDJSON_NAMESPACE;

using mlbridge::Code;
using mlbridge::ElementType;
using mlbridge::Expected;
using mlbridge::Status;
using rapidjson::SizeType;

BaseSerDes::~BaseSerDes() = default;

void BaseSerDes::fail(Code code, std::string message) {
  if (Failure.ok())
    Failure = Status(code, std::move(message));
}

Status BaseSerDes::takeStatus() { return std::exchange(Failure, Status()); }

void BaseSerDes::notSupported(const std::string &name, const char *type) {
  fail(Code::Unsupported, "this SerDes has no features of the type " + std::string(type) +
                              ", which '" + name + "' has");
}

#define SET_FEATURE(TYPE, NAME)                                                                    \
  void BaseSerDes::setFeature(const std::string &name, const TYPE) { notSupported(name, #NAME); }  \
  void BaseSerDes::setFeature(const std::string &name, const std::vector<TYPE> &) {                \
    notSupported(name, "vector of " #NAME);                                                        \
  }
// The signatures are the published ones.
SUPPORTED_TYPES(SET_FEATURE) // NOLINT(performance-unnecessary-value-param)
#undef SET_FEATURE

void BaseSerDes::setFeature(const std::string &name, const google::protobuf::Message *) {
  notSupported(name, "message");
}
void BaseSerDes::setFeature(const std::string &name,
                            const std::vector<google::protobuf::Message *> &) {
  notSupported(name, "vector of messages");
}

namespace {

/// The value of a member: one value, or an array of values of one kind.
struct Value {
  enum class Kind : uint8_t { Integer, Real, Bool, Text };
  Kind kind = Kind::Integer;
  bool isArray = false;
  std::vector<int64_t> integers; ///< Integer
  std::vector<double> reals;     ///< Real: an array with at least one number that isn't an integer
  std::vector<uint8_t> bools;
  std::vector<std::string> texts;
};

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

/// With its quotes. Bytes that are not UTF-8 become U+FFFD, as LLVM writes them.
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

/// 17 digits at most, as LLVM writes numbers; NaN, Infinity and -Infinity, as Python reads them.
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

/// Reads a whole object and gives the member of that name. Untrusted. Errors: Protocol.
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

void append(std::string &out, bool value) { out += value ? "true" : "false"; }
void append(std::string &out, int value) { out += std::to_string(value); }
void append(std::string &out, long value) { out += std::to_string(value); }
void append(std::string &out, float value) { appendReal(out, static_cast<double>(value)); }
void append(std::string &out, double value) { appendReal(out, value); }
void append(std::string &out, const std::string &value) { appendText(out, value); }

template <typename T> std::string written(const std::vector<T> &values) {
  std::string out = "[";
  for (size_t i = 0; i < values.size(); ++i) {
    if (i)
      out += ',';
    append(out, static_cast<const T &>(values[i]));
  }
  return out + "]";
}

} // namespace

#define SET_FEATURE(TYPE, _)                                                                       \
  void JsonSerDes::setFeature(const std::string &name, const TYPE value) {                         \
    std::string &out = Features[name];                                                             \
    out.clear();                                                                                   \
    append(out, value);                                                                            \
  }                                                                                                \
  void JsonSerDes::setFeature(const std::string &name, const std::vector<TYPE> &value) {           \
    Features[name] = written(value);                                                               \
  }
SUPPORTED_TYPES(SET_FEATURE)
#undef SET_FEATURE

void *JsonSerDes::getSerializedData() {
  Message = "{";
  for (const auto &[name, value] : Features) {
    if (Message.size() > 1)
      Message += ',';
    appendText(Message, name);
    Message += ':';
    Message += value;
  }
  Message += '}';
  cleanDataStructures();
  return &Message;
}

void *JsonSerDes::deserializeUntyped(void *data) {
  Read = {};
  MessageLength = 0;
  if (!data)
    return nullptr;
  Expected<Value> reply = member(*static_cast<const std::string *>(data), "out");
  if (!reply) {
    fail(reply.status().code(), reply.status().message());
    return nullptr;
  }
  void *returned = nullptr;
  const auto give = [&](ElementType type, const auto &values, auto &published) {
    returned = published.data();
    MessageLength = published.size() * sizeof(published[0]);
    Read = {returned, type, values.data(), values.size()};
  };
  switch (reply->kind) {
  case Value::Kind::Integer:
    Integers = std::move(reply->integers);
    PublishedIntegers.assign(Integers.size(), 0);
    for (size_t i = 0; i < Integers.size(); ++i)
      PublishedIntegers[i] = static_cast<int32_t>(std::clamp<int64_t>(
          Integers[i], std::numeric_limits<int32_t>::min(), std::numeric_limits<int32_t>::max()));
    PublishedIntegers.reserve(1); // so that an empty array has an address
    give(ElementType::Int64, Integers, PublishedIntegers);
    break;
  case Value::Kind::Real:
    Reals = std::move(reply->reals);
    PublishedReals.assign(Reals.size(), 0.0F);
    std::transform(Reals.begin(), Reals.end(), PublishedReals.begin(),
                   [](double real) { return static_cast<float>(real); });
    give(ElementType::Float64, Reals, PublishedReals);
    break;
  case Value::Kind::Bool:
    Bools = std::move(reply->bools);
    give(ElementType::Bool, Bools, Bools);
    break;
  case Value::Kind::Text:
    Texts = std::move(reply->texts);
    if (reply->isArray) {
      fail(Code::Unsupported, "the model answered a list of texts");
      return nullptr;
    }
    returned = Texts[0].data();
    MessageLength = Texts[0].size();
    Read = {returned, ElementType::String, Texts[0].data(), Texts[0].size()};
    break;
  }
  return returned;
}

void JsonSerDes::cleanDataStructures() { Features.clear(); }

namespace {

template <typename T> std::string shownAs(const char *buffer, size_t count) {
  std::string out;
  for (size_t i = 0; i < count; ++i) {
    T value;
    std::memcpy(&value, buffer + i * sizeof(T), sizeof(T));
    out += (i ? "," : "") + std::to_string(value);
  }
  return out;
}

/// The name of each TensorType, and how its values are shown.
constexpr struct {
  const char *name;
  std::string (*shownAs)(const char *buffer, size_t count);
} Types[] = {{"INVALID", nullptr},
             {"float", shownAs<float>},
             {"double", shownAs<double>},
             {"int8_t", shownAs<int8_t>},
             {"uint8_t", shownAs<uint8_t>},
             {"int16_t", shownAs<int16_t>},
             {"uint16_t", shownAs<uint16_t>},
             {"int32_t", shownAs<int32_t>},
             {"uint32_t", shownAs<uint32_t>},
             {"int64_t", shownAs<int64_t>},
             {"uint64_t", shownAs<uint64_t>}};
static_assert(std::size(Types) == static_cast<size_t>(TensorType::Total));

} // namespace

std::string TensorSpec::toJSON() const {
  std::string out = "{\"name\":";
  appendText(out, Name);
  out += ",\"type\":\"";
  out += Types[static_cast<size_t>(Type)].name;
  out += "\",\"port\":" + std::to_string(Port) + ",\"shape\":[";
  for (size_t i = 0; i < Shape.size(); ++i)
    out += (i ? "," : "") + std::to_string(Shape[i]);
  return out + "]}";
}

std::string tensorValueToString(const char *Buffer, const TensorSpec &Spec) {
  const auto way = Types[static_cast<size_t>(Spec.type())].shownAs;
  return Buffer && way ? way(Buffer, Spec.getElementCount()) : std::string();
}

void BitstreamSerDes::add(TensorSpec spec, const void *data) {
  if (const size_t bytes = spec.getTotalTensorBufferSize())
    Raw.append(static_cast<const char *>(data), bytes);
  Specs.push_back(std::move(spec));
}

#define SET_NUMBER(TYPE)                                                                           \
  void BitstreamSerDes::setFeature(const std::string &name, const TYPE value) {                    \
    add(TensorSpec::createSpec<TYPE>(name, {1}), &value);                                          \
  }                                                                                                \
  void BitstreamSerDes::setFeature(const std::string &name, const std::vector<TYPE> &value) {      \
    add(TensorSpec::createSpec<TYPE>(name, {static_cast<int64_t>(value.size())}), value.data());   \
  }
SET_NUMBER(int)
SET_NUMBER(long)
SET_NUMBER(float)
SET_NUMBER(double)
#undef SET_NUMBER

void BitstreamSerDes::setFeature(const std::string &name, const bool value) {
  const uint8_t byte = value;
  add(TensorSpec::createSpec<uint8_t>(name, {1}), &byte);
}

void BitstreamSerDes::setFeature(const std::string &name, const std::vector<bool> &value) {
  const std::vector<uint8_t> bytes(value.begin(), value.end());
  add(TensorSpec::createSpec<uint8_t>(name, {static_cast<int64_t>(bytes.size())}), bytes.data());
}

void BitstreamSerDes::setFeature(const std::string &name, const std::string value) {
  add(TensorSpec::createSpec<uint8_t>(name, {static_cast<int64_t>(value.size())}), value.data());
}

void BitstreamSerDes::setFeature(const std::string &name, const std::vector<std::string> &) {
  fail(Code::Unsupported, "feature '" + name + "': a bitstream has no vectors of strings");
}

void *BitstreamSerDes::getSerializedData() {
  Message = "{\"features\":[";
  for (size_t i = 0; i < Specs.size(); ++i)
    Message += (i ? "," : "") + Specs[i].toJSON();
  Message += "]}\n";
  Message += Raw;
  Message += "\n";
  cleanDataStructures();
  return &Message;
}

void *BitstreamSerDes::deserializeUntyped(void *data) {
  Read = {};
  MessageLength = 0;
  if (!data)
    return nullptr;
  Reply = *static_cast<const std::string *>(data);
  MessageLength = Reply.size();
  return Reply.data();
}

void BitstreamSerDes::cleanDataStructures() {
  Specs.clear();
  Raw.clear();
}

namespace {

using Maker = std::function<std::unique_ptr<BaseSerDes>()>;

struct Registry {
  std::mutex mutex;
  std::map<SerDesKind, Maker> makers{
      {SerDesKind::Json, [] { return std::make_unique<JsonSerDes>(); }},
      {SerDesKind::Bitstream, [] { return std::make_unique<BitstreamSerDes>(); }},
  };
  // Never destroyed: runners may be made while a program ends.
  static Registry &get() {
    static auto *registry = new Registry;
    return *registry;
  }
};

} // namespace

void registerSerDes(SerDesKind kind, Maker make) {
  Registry &registry = Registry::get();
  const std::lock_guard<std::mutex> lock(registry.mutex);
  registry.makers[kind] = std::move(make);
}

std::unique_ptr<BaseSerDes> makeSerDes(SerDesKind kind) {
  Maker make;
  {
    Registry &registry = Registry::get();
    const std::lock_guard<std::mutex> lock(registry.mutex);
    const auto found = registry.makers.find(kind);
    if (found == registry.makers.end())
      return nullptr;
    make = found->second;
  }
  return make ? make() : nullptr;
}

} // namespace MLBridge
