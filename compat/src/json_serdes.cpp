// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "SerDes/jsonSerDes.h"
#include "json.h"

#include <algorithm>
#include <limits>

namespace MLBridge {

using mlbridge::ElementType;

namespace {

void append(std::string &out, bool value) { out += value ? "true" : "false"; }
void append(std::string &out, int value) { out += std::to_string(value); }
void append(std::string &out, long value) { out += std::to_string(value); }
void append(std::string &out, float value) { json::appendReal(out, static_cast<double>(value)); }
void append(std::string &out, double value) { json::appendReal(out, value); }
void append(std::string &out, const std::string &value) { json::appendText(out, value); }

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
    json::appendText(Message, name);
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
  mlbridge::Expected<json::Value> reply =
      json::member(*static_cast<const std::string *>(data), "out");
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
  case json::Value::Kind::Integer:
    Integers = std::move(reply->integers);
    PublishedIntegers.assign(Integers.size(), 0);
    for (size_t i = 0; i < Integers.size(); ++i)
      PublishedIntegers[i] = static_cast<int32_t>(std::clamp<int64_t>(
          Integers[i], std::numeric_limits<int32_t>::min(), std::numeric_limits<int32_t>::max()));
    PublishedIntegers.reserve(1); // so that an empty array has an address
    give(ElementType::Int64, Integers, PublishedIntegers);
    break;
  case json::Value::Kind::Real:
    Reals = std::move(reply->reals);
    PublishedReals.assign(Reals.size(), 0.0F);
    std::transform(Reals.begin(), Reals.end(), PublishedReals.begin(),
                   [](double real) { return static_cast<float>(real); });
    give(ElementType::Float64, Reals, PublishedReals);
    break;
  case json::Value::Kind::Bool:
    Bools = std::move(reply->bools);
    give(ElementType::Bool, Bools, Bools);
    break;
  case json::Value::Kind::Text:
    Texts = std::move(reply->texts);
    if (reply->isArray) {
      fail(mlbridge::Code::Unsupported, "the model answered a list of texts");
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

} // namespace MLBridge
