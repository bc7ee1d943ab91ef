// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Numbers of one element type as those of another, where the value stays what it is.
#ifndef MLBRIDGE_CORE_CONVERT_H
#define MLBRIDGE_CORE_CONVERT_H

#include "core/message.h"

#include <algorithm>
#include <cstring>

namespace mlbridge {

/// The C++ type of an element type, for a generic lambda.
template <typename T> struct Type {
  using type = T;
};

inline bool isFloat(ElementType type) {
  return type == ElementType::Float16 || type == ElementType::Float32 ||
         type == ElementType::Float64;
}

/// Calls `body` with the Type of a numeric element type.
template <typename F> auto withNumber(ElementType type, const F &body) {
  switch (type) {
  case ElementType::Int8:
    return body(Type<int8_t>());
  case ElementType::Int16:
    return body(Type<int16_t>());
  case ElementType::Int32:
    return body(Type<int32_t>());
  case ElementType::Int64:
    return body(Type<int64_t>());
  case ElementType::UInt16:
    return body(Type<uint16_t>());
  case ElementType::UInt32:
    return body(Type<uint32_t>());
  case ElementType::UInt64:
    return body(Type<uint64_t>());
  case ElementType::Float16:
    return body(Type<Half>());
  case ElementType::Float32:
    return body(Type<float>());
  case ElementType::Float64:
    return body(Type<double>());
  case ElementType::Bool:
    return body(Type<bool>());
  default:
    return body(Type<uint8_t>());
  }
}

/// A tensor of the spec's lengths, where Dynamic ones are 0 until it is reshaped.
inline Expected<Tensor> emptyTensor(const TensorSpec &spec) {
  Shape shape = spec.shape;
  std::replace(shape.begin(), shape.end(), Dynamic, int64_t{0});
  return Tensor::make(spec, shape);
}

void copyStrings(const TensorView &to, const void *from);
/// Copies `to.count` elements of its own type.
inline void copySame(const TensorView &to, const void *from) {
  if (to.type == ElementType::String)
    copyStrings(to, from);
  else if (to.count)
    std::memcpy(to.data, from, to.bytes());
}

/// Copies `to.count` elements; those of another type if each value fits, or else none of them.
/// Floating-point numbers may be rounded to fewer digits. Errors: InvalidArgument (text and
/// numbers, a value that doesn't fit).
Status copyElements(const TensorView &to, ElementType type, const void *from);

} // namespace mlbridge

#endif
