// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "values.h"

#include <cmath>
#include <limits>
#include <type_traits>

namespace MLBridge {

using mlbridge::Code;
using mlbridge::ElementType;
using mlbridge::Status;

namespace {

template <typename To, typename From> bool fits(From value, To &to) {
  if constexpr (std::is_floating_point_v<To>) {
    to = static_cast<To>(value);
    return true;
  } else if constexpr (std::is_floating_point_v<From>) {
    // 2^63 and 2^64 are doubles, the largest integers below them are not.
    const double beyond = std::ldexp(1.0, std::numeric_limits<To>::digits);
    const double least = std::is_signed_v<To> ? -beyond : 0.0;
    if (!(value >= least && value < beyond) || std::trunc(value) != value)
      return false;
    to = static_cast<To>(value);
    return true;
  } else {
    to = static_cast<To>(value); // NOLINT(bugprone-signed-char-misuse): an int8 is a number
    return static_cast<From>(to) == value && (to < To()) == (value < From());
  }
}

template <typename To, typename From>
Status convertAll(const void *from, size_t count, void *into) {
  for (size_t i = 0; i < count; ++i) {
    const From value = static_cast<const From *>(from)[i];
    if (!fits(value, static_cast<To *>(into)[i]))
      return Status(Code::Mismatch, "the model answered " + std::to_string(value) + " (value " +
                                        std::to_string(i) + "), which is no " +
                                        mlbridge::name(mlbridge::ElementTypeOf<To>::value));
  }
  return Status();
}

/// Calls `f` with a value of the C++ type, if it is one of replies and passes.
template <typename F> void withType(ElementType type, F f) {
  switch (type) {
  case ElementType::Int8:
    return f(int8_t{});
  case ElementType::Int16:
    return f(int16_t{});
  case ElementType::Int32:
    return f(int32_t{});
  case ElementType::Int64:
    return f(int64_t{});
  case ElementType::UInt8:
  case ElementType::Bool:
    return f(uint8_t{});
  case ElementType::UInt16:
    return f(uint16_t{});
  case ElementType::UInt32:
    return f(uint32_t{});
  case ElementType::UInt64:
    return f(uint64_t{});
  case ElementType::Float32:
    return f(float{});
  case ElementType::Float64:
    return f(double{});
  default:
    break;
  }
}

} // namespace

Status convert(const BaseSerDes::Values &values, ElementType type, void *into) {
  if (values.type == ElementType::String) {
    if (type != ElementType::Int8 && type != ElementType::UInt8)
      return Status(Code::Mismatch, "the model answered text where the pass asks for " +
                                        std::string(mlbridge::name(type)));
    if (values.count)
      std::memcpy(into, values.data, values.count);
    return Status();
  }
  Status status(Code::Internal, "no answer has this type");
  withType(values.type, [&](auto from) {
    withType(type, [&](auto to) {
      status = convertAll<decltype(to), decltype(from)>(values.data, values.count, into);
    });
  });
  return status;
}

} // namespace MLBridge
