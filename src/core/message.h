// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The texts of errors: their parts, lists of names, and what they take over from elsewhere.
#ifndef MLBRIDGE_CORE_MESSAGE_H
#define MLBRIDGE_CORE_MESSAGE_H

#include <mlbridge/status.h>
#include <mlbridge/tensor.h>

#include <cstdarg>
#include <string>
#include <string_view>
#include <vector>

namespace mlbridge {

/// A piece of a message: a text, a number in decimal, or lengths as "[2, 3]". Pieces are passed as
/// C's variable arguments, texts and lengths by address, with their kinds as the digits of one
/// number: a message is made in many places, and few instructions are needed there for this.
enum class PartKind : uint8_t { End, Text, String, View, Signed, Unsigned, Real, Shape, Lengths };

template <typename Part> constexpr PartKind kindOf() {
  if constexpr (std::is_convertible_v<const Part &, const char *>)
    return PartKind::Text;
  else if constexpr (std::is_same_v<Part, std::string>)
    return PartKind::String;
  else if constexpr (std::is_same_v<Part, std::string_view>)
    return PartKind::View;
  else if constexpr (std::is_same_v<Part, Shape>)
    return PartKind::Shape;
  else if constexpr (std::is_same_v<Part, Span<const int64_t>>)
    return PartKind::Lengths;
  else if constexpr (std::is_floating_point_v<Part>)
    return PartKind::Real;
  else
    return std::is_signed_v<Part> ? PartKind::Signed : PartKind::Unsigned;
}
template <typename... Parts> constexpr uint64_t kindsOf() {
  static_assert(sizeof...(Parts) <= 16);
  uint64_t kinds = 0;
  int shift = 0;
  ((kinds |= static_cast<uint64_t>(kindOf<Parts>()) << shift, shift += 4), ...);
  return kinds;
}
template <typename Part> auto argumentOf(const Part &part) {
  constexpr PartKind Kind = kindOf<Part>();
  if constexpr (Kind == PartKind::Text)
    return static_cast<const char *>(part);
  else if constexpr (Kind == PartKind::Real)
    return static_cast<double>(part);
  else if constexpr (Kind == PartKind::Signed)
    return static_cast<int64_t>(part);
  else if constexpr (Kind == PartKind::Unsigned)
    return static_cast<uint64_t>(part);
  else
    return &part;
}
std::string joinOf(uint64_t kinds, ...);
std::string joinOf(uint64_t kinds, va_list parts);
[[gnu::cold]] Status makeErrorOf(Code code, uint64_t kinds, ...);

/// The parts in a row.
template <typename... Parts> std::string join(const Parts &...parts) {
  return joinOf(kindsOf<Parts...>(), argumentOf(parts)...);
}
/// A failure whose message is that.
template <typename... Parts> Status makeError(Code code, const Parts &...parts) {
  return makeErrorOf(code, kindsOf<Parts...>(), argumentOf(parts)...);
}

/// A text of another's, cut at a character with a mark if it is longer than MostText.
inline constexpr size_t MostText = 4096;
std::string shortened(std::string text);
/// "a, b, c", or "none". Cut where there are very many.
std::string listOf(Span<const std::string_view> words);
std::vector<std::string_view> viewsOf(Span<const std::string> words);
std::vector<std::string_view> namesOf(Span<const TensorSpec> specs);
std::vector<std::string_view> namesOf(Span<const AgentSpec> agents);

} // namespace mlbridge

#endif
