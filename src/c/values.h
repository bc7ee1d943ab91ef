// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What the functions of the C interface share: values of its structures as those of the library.
#ifndef MLBRIDGE_C_VALUES_H
#define MLBRIDGE_C_VALUES_H

#include <mlbridge/c/mlbridge.h>
#include <mlbridge/tensor.h>

#include <algorithm>
#include <cstring>

namespace mlbridge::c {

inline mlbridge_code codeOf(const Status &status) {
  return static_cast<mlbridge_code>(status.code());
}
inline std::string textOf(const char *text) { return text ? text : ""; }
/// A number that is no code becomes Internal.
Status statusOf(mlbridge_code code, const char *message);

/// Writes the text, cut to what fits, if there is somewhere to write; its whole length.
uint64_t writeText(std::string_view text, char *to, uint64_t capacity);
/// The status's code, and its message where the caller wants it.
mlbridge_code told(const Status &status, char *message, uint64_t capacity);

/// The part of a structure that both sides know; the rest is zero. Null if there is no size.
template <typename T> bool known(const T *from, T &to) {
  if (!from || from->size < sizeof from->size)
    return false;
  to = T{};
  std::memcpy(&to, from, std::min<uint64_t>(from->size, sizeof to));
  return true;
}

/// Errors: InvalidArgument (a structure without its size, no name, no shape), those of
/// Signature::check.
Expected<Signature> signatureOf(const mlbridge_signature &signature);

/// A signature as the C interface shows it, for as long as this object stays where it is.
class ShownSignature {
public:
  explicit ShownSignature(Signature signature);
  ShownSignature(const ShownSignature &) = delete;
  ShownSignature &operator=(const ShownSignature &) = delete;
  const mlbridge_signature *get() const { return &shown_; }

private:
  Signature signature_;
  std::vector<mlbridge_tensor_spec> inputs_, outputs_;
  mlbridge_signature shown_{};
};

/// The C++ type of an element type, for a generic lambda.
template <typename T> struct Type {
  using type = T;
};

/// Calls `body` with the Type of a numeric element type; else InvalidArgument.
template <typename F> Status withNumber(mlbridge_type type, const F &body) {
  switch (type) {
  case MLBRIDGE_INT8:
    return body(Type<int8_t>());
  case MLBRIDGE_INT16:
    return body(Type<int16_t>());
  case MLBRIDGE_INT32:
    return body(Type<int32_t>());
  case MLBRIDGE_INT64:
    return body(Type<int64_t>());
  case MLBRIDGE_UINT8:
    return body(Type<uint8_t>());
  case MLBRIDGE_UINT16:
    return body(Type<uint16_t>());
  case MLBRIDGE_UINT32:
    return body(Type<uint32_t>());
  case MLBRIDGE_UINT64:
    return body(Type<uint64_t>());
  case MLBRIDGE_FLOAT16:
    return body(Type<Half>());
  case MLBRIDGE_FLOAT32:
    return body(Type<float>());
  case MLBRIDGE_FLOAT64:
    return body(Type<double>());
  case MLBRIDGE_BOOL:
    return body(Type<bool>());
  case MLBRIDGE_STRING:
    return Status(Code::InvalidArgument, "strings have no buffer in C; use the functions for them");
  default:
    return Status(Code::InvalidArgument, std::to_string(type) + " is no element type");
  }
}

/// What an empty tensor points to, since null says that there is none.
void *nothing();

/// The one of `specs` with this name, or -1.
int find(Span<const TensorSpec> specs, const char *name);

} // namespace mlbridge::c

#endif
