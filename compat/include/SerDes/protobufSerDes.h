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
  /// True if a field of that type can have the value.
  template <typename T, typename Value> bool canBe(const Field &field, Value value) {
    if constexpr (std::is_floating_point_v<T>) {
      return true;
    } else if constexpr (std::is_floating_point_v<Value> ||
                         (std::is_same_v<T, bool> && !std::is_same_v<Value, bool>)) {
      wrongType(field);
      return false;
    } else {
      // Compared as signed: a long has no value above that of uint64_t.
      const long number = static_cast<long>(value);
      const bool fits = std::is_same_v<T, uint64_t>
                            ? number >= 0
                            : number >= static_cast<long>(std::numeric_limits<T>::min()) &&
                                  number <= static_cast<long>(std::numeric_limits<T>::max());
      if (!fits)
        fail(Code::InvalidArgument, field.full_name() + " cannot be " + std::to_string(value));
      return fits;
    }
  }

// For each type of a number field, protobuf's kind and the names of its functions.
#define MLBRIDGE_COMPAT_NUMBERS(M)                                                                 \
  M(INT32, Int32, int32_t)                                                                         \
  M(INT64, Int64, int64_t)                                                                         \
  M(UINT32, UInt32, uint32_t)                                                                      \
  M(UINT64, UInt64, uint64_t)                                                                      \
  M(ENUM, EnumValue, int32_t)                                                                      \
  M(FLOAT, Float, float)                                                                           \
  M(DOUBLE, Double, double)                                                                        \
  M(BOOL, Bool, bool)

  template <typename T> void put(const Field &field, T value) {
    const auto &reflection = *Request->GetReflection();
    switch (field.cpp_type()) {
#define MLBRIDGE_COMPAT_CASE(KIND, NAME, TYPE)                                                     \
  case Field::CPPTYPE_##KIND:                                                                      \
    if (canBe<TYPE>(field, value))                                                                 \
      MLBRIDGE_COMPAT_PUT(NAME, static_cast<TYPE>(value));                                         \
    return;
      MLBRIDGE_COMPAT_NUMBERS(MLBRIDGE_COMPAT_CASE)
#undef MLBRIDGE_COMPAT_CASE
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

  template <typename T, typename Get> void *readAll(const Field &field, Get get) {
    const int count =
        field.is_repeated() ? Response->GetReflection()->FieldSize(*Response, &field) : 1;
    Numbers.assign((static_cast<size_t>(count) * sizeof(T)) / sizeof(uint64_t) + 1, 0);
    T *const to = reinterpret_cast<T *>(Numbers.data());
    for (int i = 0; i < count; ++i)
      to[i] = get(i);
    MessageLength = static_cast<size_t>(count) * sizeof(T);
    Read = {to, mlbridge::ElementTypeOf<T>::value, to, static_cast<size_t>(count)};
    return to;
  }
  void *deserialize(Message *reply) {
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
    const auto &reflection = *reply->GetReflection();
    switch (field.cpp_type()) {
#define MLBRIDGE_COMPAT_CASE(KIND, NAME, TYPE)                                                     \
  case Field::CPPTYPE_##KIND:                                                                      \
    return readAll<TYPE>(field, [&](int i) {                                                       \
      return field.is_repeated() ? reflection.GetRepeated##NAME(*reply, &field, i)                 \
                                 : reflection.Get##NAME(*reply, &field);                           \
    });
      MLBRIDGE_COMPAT_NUMBERS(MLBRIDGE_COMPAT_CASE)
#undef MLBRIDGE_COMPAT_CASE
#undef MLBRIDGE_COMPAT_NUMBERS
    case Field::CPPTYPE_STRING:
      if (!field.is_repeated()) {
        Text = reflection.GetString(*reply, &field);
        MessageLength = Text.size();
        Read = {Text.data(), mlbridge::ElementType::String, Text.data(), Text.size()};
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
