// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "SerDes/bitstreamSerDes.h"
#include "json.h"

#include <iterator>

namespace MLBridge {

using mlbridge::Code;

namespace {

template <typename T> std::string written(const char *buffer, size_t count) {
  std::string out;
  for (size_t i = 0; i < count; ++i) {
    T value;
    std::memcpy(&value, buffer + i * sizeof(T), sizeof(T));
    out += (i ? "," : "") + std::to_string(value);
  }
  return out;
}

/// Of each TensorType its name, and how its values are shown.
constexpr struct {
  const char *name;
  std::string (*written)(const char *buffer, size_t count);
} Types[] = {{"INVALID", nullptr},
             {"float", written<float>},
             {"double", written<double>},
             {"int8_t", written<int8_t>},
             {"uint8_t", written<uint8_t>},
             {"int16_t", written<int16_t>},
             {"uint16_t", written<uint16_t>},
             {"int32_t", written<int32_t>},
             {"uint32_t", written<uint32_t>},
             {"int64_t", written<int64_t>},
             {"uint64_t", written<uint64_t>}};
static_assert(std::size(Types) == static_cast<size_t>(TensorType::Total));

} // namespace

std::string TensorSpec::toJSON() const {
  std::string out = "{\"name\":";
  json::appendText(out, Name);
  out += ",\"type\":\"";
  out += Types[static_cast<size_t>(Type)].name;
  out += "\",\"port\":" + std::to_string(Port) + ",\"shape\":[";
  for (size_t i = 0; i < Shape.size(); ++i)
    out += (i ? "," : "") + std::to_string(Shape[i]);
  return out + "]}";
}

std::string tensorValueToString(const char *Buffer, const TensorSpec &Spec) {
  const auto way = Types[static_cast<size_t>(Spec.type())].written;
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

} // namespace MLBridge
