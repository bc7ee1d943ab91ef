// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// ProtobufSerDes of the 2024 release: features are the fields of a message of the program's own,
// and the answer is the first field of the reply. Header only: the program links libprotobuf.
#ifndef MLBRIDGE_COMPAT_PROTOBUFSERDES_H
#define MLBRIDGE_COMPAT_PROTOBUFSERDES_H

#include "SerDes/baseSerDes.h"

#include <google/protobuf/descriptor.h>
#include <google/protobuf/message.h>

#include <limits>

namespace MLBridge {

/// setRequest and setResponse take pointers to messages, which stay the caller's. The request is
/// cleared after each evaluation.
class ProtobufSerDes : public BaseSerDes {
  using Message = google::protobuf::Message;
  using Field = google::protobuf::FieldDescriptor;
  using Code = mlbridge::Code;

public:
  ProtobufSerDes() : BaseSerDes(Kind::Protobuf) {}
  static bool classof(const BaseSerDes *S) { return S->getKind() == Kind::Protobuf; }

  void setRequest(void *request) override { Request = static_cast<Message *>(request); }
  void setResponse(void *response) override { Response = static_cast<Message *>(response); }
  void *getRequest() override { return Request; }
  void *getResponse() override { return Response; }
  google::protobuf::Message *getMessage() { return Response; }

#define SET_FEATURE(TYPE, _)                                                                       \
  void setFeature(const std::string &name, const TYPE value) override {                            \
    if (const Field *field = find(name, false))                                                    \
      put(*field, value);                                                                          \
  }                                                                                                \
  void setFeature(const std::string &name, const std::vector<TYPE> &values) override {             \
    if (const Field *field = find(name, true))                                                     \
      for (const TYPE value : values)                                                              \
        put(*field, value);                                                                        \
  }
  SUPPORTED_TYPES(SET_FEATURE)
#undef SET_FEATURE
  void setFeature(const std::string &name, const Message *value) override {
    if (const Field *field = find(name, false); field && fits(*field, value))
      Request->GetReflection()->MutableMessage(Request, field)->CopyFrom(*value);
  }
  void setFeature(const std::string &name, const std::vector<Message *> &values) override {
    const Field *field = find(name, true);
    for (const Message *value : values)
      if (field && fits(*field, value))
        Request->GetReflection()->AddMessage(Request, field)->CopyFrom(*value);
  }

  void *getSerializedData() override {
    if (!Request) {
      fail(mlbridge::Code::InvalidArgument, "no request message: call setRequest");
      return nullptr;
    }
    const bool written = Request->SerializeToString(&Text);
    cleanDataStructures();
    if (written)
      return &Text;
    fail(mlbridge::Code::InvalidArgument, "the request message lacks a required field");
    return nullptr;
  }
  /// Takes the bytes of a reply, which go into the message of setResponse; after expectMessages,
  /// the reply message itself.
  void *deserializeUntyped(void *data) override {
    return ReplyIsText ? deserializeText(*static_cast<const std::string *>(data))
                       : deserialize(static_cast<Message *>(data));
  }
  /// Not in the release: what deserializeUntyped is given is a message (gRPC), not its bytes.
  void expectMessages() { ReplyIsText = false; }

protected:
  void cleanDataStructures() override {
    if (Request)
      Request->Clear();
  }

private:
  const Field *find(const std::string &name, bool repeated) {
    const Field *field = nullptr;
    if (!Request)
      fail(Code::InvalidArgument, "feature '" + name + "': no request message: call setRequest");
    else if (field = Request->GetDescriptor()->FindFieldByName(name); !field)
      fail(Code::InvalidArgument,
           Request->GetDescriptor()->full_name() + " has no field '" + name + "'");
    else if (field->is_repeated() != repeated)
      fail(Code::InvalidArgument, field->full_name() + (repeated ? " is not" : " is") +
                                      " repeated, the feature is" + (repeated ? "" : " not"));
    else
      return field;
    return nullptr;
  }
  void wrongType(const Field &field) {
    fail(Code::InvalidArgument, field.full_name() + " is of " + field.cpp_type_name() +
                                    ", which the feature's value is not");
  }
  bool fits(const Field &field, const Message *value) {
    if (value && field.cpp_type() == Field::CPPTYPE_MESSAGE &&
        field.message_type() == value->GetDescriptor())
      return true;
    wrongType(field);
    return false;
  }

#define MLBRIDGE_COMPAT_PUT(NAME, VALUE)                                                           \
  (field.is_repeated() ? reflection.Add##NAME(Request, &field, VALUE)                              \
                       : reflection.Set##NAME(Request, &field, VALUE))
  void put(const Field &field, const std::string &value) {
    const auto &reflection = *Request->GetReflection();
    if (field.cpp_type() == Field::CPPTYPE_STRING)
      MLBRIDGE_COMPAT_PUT(String, value);
    else
      wrongType(field);
  }
  template <typename T> bool inRange(const Field &field, long value) {
    // Compared as signed: a long has no value above that of uint64_t.
    const bool fits = std::is_same_v<T, uint64_t>
                          ? value >= 0
                          : value >= static_cast<long>(std::numeric_limits<T>::min()) &&
                                value <= static_cast<long>(std::numeric_limits<T>::max());
    if (!fits)
      fail(Code::InvalidArgument, field.full_name() + " cannot be " + std::to_string(value));
    return fits;
  }
  template <typename T> void put(const Field &field, T value) {
    const auto &reflection = *Request->GetReflection();
    const bool isReal = std::is_floating_point_v<T>;
    switch (field.cpp_type()) {
    case Field::CPPTYPE_INT32:
      if (isReal)
        return wrongType(field);
      if (inRange<int32_t>(field, static_cast<long>(value)))
        MLBRIDGE_COMPAT_PUT(Int32, static_cast<int32_t>(value));
      return;
    case Field::CPPTYPE_INT64:
      if (isReal)
        return wrongType(field);
      MLBRIDGE_COMPAT_PUT(Int64, static_cast<int64_t>(value));
      return;
    case Field::CPPTYPE_UINT32:
      if (isReal)
        return wrongType(field);
      if (inRange<uint32_t>(field, static_cast<long>(value)))
        MLBRIDGE_COMPAT_PUT(UInt32, static_cast<uint32_t>(value));
      return;
    case Field::CPPTYPE_UINT64:
      if (isReal)
        return wrongType(field);
      if (inRange<uint64_t>(field, static_cast<long>(value)))
        MLBRIDGE_COMPAT_PUT(UInt64, static_cast<uint64_t>(value));
      return;
    case Field::CPPTYPE_ENUM:
      if (isReal)
        return wrongType(field);
      if (inRange<int32_t>(field, static_cast<long>(value)))
        MLBRIDGE_COMPAT_PUT(EnumValue, static_cast<int>(value));
      return;
    case Field::CPPTYPE_FLOAT:
      MLBRIDGE_COMPAT_PUT(Float, static_cast<float>(value));
      return;
    case Field::CPPTYPE_DOUBLE:
      MLBRIDGE_COMPAT_PUT(Double, static_cast<double>(value));
      return;
    case Field::CPPTYPE_BOOL:
      if (!std::is_same_v<T, bool>)
        return wrongType(field);
      MLBRIDGE_COMPAT_PUT(Bool, static_cast<bool>(value));
      return;
    default:
      return wrongType(field);
    }
  }
#undef MLBRIDGE_COMPAT_PUT

  void *deserializeText(const std::string &text) {
    if (!Response) {
      fail(Code::InvalidArgument, "no reply message: call setResponse");
      return nullptr;
    }
    if (!Response->ParseFromString(text)) {
      fail(Code::Protocol, "the reply is no " + Response->GetDescriptor()->full_name());
      return nullptr;
    }
    return deserialize(Response);
  }

  template <typename T> T read(const Field &field, int i) const {
    const auto &reflection = *Response->GetReflection();
    const bool many = field.is_repeated();
    const auto &from = *Response;
    if constexpr (std::is_same_v<T, int32_t>)
      return field.cpp_type() == Field::CPPTYPE_ENUM
                 ? (many ? reflection.GetRepeatedEnumValue(from, &field, i)
                         : reflection.GetEnumValue(from, &field))
                 : (many ? reflection.GetRepeatedInt32(from, &field, i)
                         : reflection.GetInt32(from, &field));
    else if constexpr (std::is_same_v<T, int64_t>)
      return many ? reflection.GetRepeatedInt64(from, &field, i)
                  : reflection.GetInt64(from, &field);
    else if constexpr (std::is_same_v<T, uint32_t>)
      return many ? reflection.GetRepeatedUInt32(from, &field, i)
                  : reflection.GetUInt32(from, &field);
    else if constexpr (std::is_same_v<T, uint64_t>)
      return many ? reflection.GetRepeatedUInt64(from, &field, i)
                  : reflection.GetUInt64(from, &field);
    else if constexpr (std::is_same_v<T, float>)
      return many ? reflection.GetRepeatedFloat(from, &field, i)
                  : reflection.GetFloat(from, &field);
    else if constexpr (std::is_same_v<T, double>)
      return many ? reflection.GetRepeatedDouble(from, &field, i)
                  : reflection.GetDouble(from, &field);
    else
      return many ? reflection.GetRepeatedBool(from, &field, i) : reflection.GetBool(from, &field);
  }
  template <typename T> void *readAll(const Field &field, mlbridge::ElementType type) {
    const int count =
        field.is_repeated() ? Response->GetReflection()->FieldSize(*Response, &field) : 1;
    Numbers.assign((static_cast<size_t>(count) * sizeof(T)) / sizeof(uint64_t) + 1, 0);
    T *const to = reinterpret_cast<T *>(Numbers.data());
    for (int i = 0; i < count; ++i)
      to[i] = read<T>(field, i);
    MessageLength = static_cast<size_t>(count) * sizeof(T);
    Read = {to, type, to, static_cast<size_t>(count)};
    return to;
  }
  void *deserialize(Message *reply) {
    using mlbridge::ElementType;
    Read = {};
    MessageLength = 0;
    cleanDataStructures();
    Response = reply;
    const auto *type = reply ? reply->GetDescriptor() : nullptr;
    if (!type || type->field_count() == 0) {
      fail(Code::Mismatch, "the reply message has no field");
      return nullptr;
    }
    const Field &field = *type->field(0);
    switch (field.cpp_type()) {
    case Field::CPPTYPE_INT32:
    case Field::CPPTYPE_ENUM:
      return readAll<int32_t>(field, ElementType::Int32);
    case Field::CPPTYPE_INT64:
      return readAll<int64_t>(field, ElementType::Int64);
    case Field::CPPTYPE_UINT32:
      return readAll<uint32_t>(field, ElementType::UInt32);
    case Field::CPPTYPE_UINT64:
      return readAll<uint64_t>(field, ElementType::UInt64);
    case Field::CPPTYPE_FLOAT:
      return readAll<float>(field, ElementType::Float32);
    case Field::CPPTYPE_DOUBLE:
      return readAll<double>(field, ElementType::Float64);
    case Field::CPPTYPE_BOOL:
      return readAll<bool>(field, ElementType::Bool);
    case Field::CPPTYPE_STRING:
      if (!field.is_repeated()) {
        Text = reply->GetReflection()->GetString(*reply, &field);
        MessageLength = Text.size();
        Read = {Text.data(), ElementType::String, Text.data(), Text.size()};
        return Text.data();
      }
      break;
    default:
      break;
    }
    fail(Code::Unsupported, field.full_name() + ", the first field of the reply, is no number or "
                                                "text; read the reply message itself");
    return nullptr;
  }

  Message *Request = nullptr;
  Message *Response = nullptr;
  bool ReplyIsText = true;
  std::string Text;
  std::vector<uint64_t> Numbers;
};

/// Whoever includes this header can give a runner the kind Protobuf.
inline const bool protobufSerDesIsRegistered = [] {
  registerSerDes(SerDesKind::Protobuf, [] { return std::make_unique<ProtobufSerDes>(); });
  return true;
}();

} // namespace MLBridge

#endif
