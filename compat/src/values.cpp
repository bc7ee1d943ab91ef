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
    to = static_cast<To>(value);
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

template <typename From>
Status convertFrom(const BaseSerDes::Values &v, ElementType to, void *into) {
  switch (to) {
  case ElementType::Int8:
    return convertAll<int8_t, From>(v.data, v.count, into);
  case ElementType::Int16:
    return convertAll<int16_t, From>(v.data, v.count, into);
  case ElementType::Int32:
    return convertAll<int32_t, From>(v.data, v.count, into);
  case ElementType::Int64:
    return convertAll<int64_t, From>(v.data, v.count, into);
  case ElementType::UInt8:
    return convertAll<uint8_t, From>(v.data, v.count, into);
  case ElementType::UInt16:
    return convertAll<uint16_t, From>(v.data, v.count, into);
  case ElementType::UInt32:
    return convertAll<uint32_t, From>(v.data, v.count, into);
  case ElementType::UInt64:
    return convertAll<uint64_t, From>(v.data, v.count, into);
  case ElementType::Float32:
    return convertAll<float, From>(v.data, v.count, into);
  case ElementType::Float64:
    return convertAll<double, From>(v.data, v.count, into);
  default:
    return Status(Code::Internal, "no answer has this type");
  }
}

} // namespace

Status convert(const BaseSerDes::Values &values, ElementType type, void *into) {
  switch (values.type) {
  case ElementType::Int32:
    return convertFrom<int32_t>(values, type, into);
  case ElementType::Int64:
    return convertFrom<int64_t>(values, type, into);
  case ElementType::UInt32:
    return convertFrom<uint32_t>(values, type, into);
  case ElementType::UInt64:
    return convertFrom<uint64_t>(values, type, into);
  case ElementType::Float32:
    return convertFrom<float>(values, type, into);
  case ElementType::Float64:
    return convertFrom<double>(values, type, into);
  case ElementType::Bool:
    return convertFrom<uint8_t>(values, type, into);
  case ElementType::String:
    if (type != ElementType::Int8 && type != ElementType::UInt8)
      return Status(Code::Mismatch, "the model answered text where the pass asks for " +
                                        std::string(mlbridge::name(type)));
    if (values.count)
      std::memcpy(into, values.data, values.count);
    return Status();
  default:
    return Status(Code::Internal, "no reply has this type");
  }
}

} // namespace MLBridge
