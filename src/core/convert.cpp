// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "core/convert.h"

#include <cmath>
#include <cstdio>
#include <limits>

namespace mlbridge {
namespace {

/// Holds each 64-bit integer and each double exactly.
using Number = long double;
static_assert(std::numeric_limits<Number>::digits >= 64);

constexpr Number LargestHalf = 65504;

Number read(ElementType type, const void *from, size_t i) {
  return withNumber(type, [&](auto tag) -> Number {
    using T = typename decltype(tag)::type;
    const T value = static_cast<const T *>(from)[i];
    if constexpr (std::is_same_v<T, Half>)
      return toFloat(value);
    else
      return static_cast<Number>(value);
  });
}

void write(const TensorView &to, size_t i, Number number) {
  withNumber(to.type, [&](auto tag) {
    using T = typename decltype(tag)::type;
    if constexpr (std::is_same_v<T, Half>)
      static_cast<T *>(to.data)[i] = toHalf(static_cast<float>(number));
    else
      static_cast<T *>(to.data)[i] = static_cast<T>(number);
  });
}

std::string textOf(Number number) {
  char text[64];
  const bool isInteger = number == std::floor(number) && std::abs(number) < 0x1p64L;
  std::snprintf(text, sizeof text, isInteger ? "%.0Lf" : "%.9Lg", number);
  return text;
}

/// The reason why the number is none of the type; nothing if it fits.
std::string unfit(Number number, ElementType type, bool isFromInteger) {
  Number least = 0, most = 0;
  bool isExact = true;
  withNumber(type, [&](auto tag) {
    using T = typename decltype(tag)::type;
    if constexpr (std::is_same_v<T, Half>) {
      most = LargestHalf;
      least = -most;
      isExact = toFloat(toHalf(static_cast<float>(number))) == number;
    } else {
      most = static_cast<Number>(std::numeric_limits<T>::max());
      least = static_cast<Number>(std::numeric_limits<T>::lowest());
      isExact = number >= least && number <= most &&
                static_cast<Number>(static_cast<T>(number)) == number;
    }
  });
  if (isFloat(type) && !std::isfinite(number))
    return {};
  if (!(number >= least && number <= most))
    return join(textOf(number), ", which is not in ", name(type), "'s range of ", textOf(least),
                " to ", textOf(most));
  if (isExact || (isFloat(type) && !isFromInteger))
    return {};
  return join(textOf(number), ", which ", name(type), " cannot represent exactly");
}

} // namespace

void copyStrings(const TensorView &to, const void *from) {
  std::copy_n(static_cast<const std::string *>(from), to.count,
              static_cast<std::string *>(to.data));
}

Status copyElements(const TensorView &to, ElementType type, const void *from) {
  if (type == to.type) {
    copySame(to, from);
    return Status();
  }
  if (type == ElementType::String || to.type == ElementType::String)
    return makeError(Code::InvalidArgument, "was used as ", name(type));
  for (size_t i = 0; i < to.count; ++i)
    if (const std::string why = unfit(read(type, from, i), to.type, !isFloat(type)); !why.empty())
      return makeError(Code::InvalidArgument, "was given ", why,
                       to.count > 1 ? ", at index " + std::to_string(i) : "");
  for (size_t i = 0; i < to.count; ++i)
    write(to, i, read(type, from, i));
  return Status();
}

} // namespace mlbridge
