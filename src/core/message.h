// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The texts of errors: their parts, lists of names, and what they take over from elsewhere.
#ifndef MLBRIDGE_CORE_MESSAGE_H
#define MLBRIDGE_CORE_MESSAGE_H

#include <mlbridge/status.h>
#include <mlbridge/tensor.h>

#include <string>
#include <string_view>
#include <vector>

namespace mlbridge {

/// A piece of a message: a text, a number in decimal, or lengths as "[2, 3]". It points to what it
/// was made of.
struct MessagePart {
  enum class Kind : uint8_t { Text, Signed, Unsigned, Real, Lengths };
  Kind kind;
  const void *data = nullptr;
  uint64_t bits = 0; ///< of the number, or how many characters or lengths

  template <typename Part> static MessagePart of(const Part &part) {
    if constexpr (std::is_convertible_v<const Part &, std::string_view>) {
      const std::string_view text = part;
      return {Kind::Text, text.data(), text.size()};
    } else if constexpr (std::is_convertible_v<const Part &, Span<const int64_t>>) {
      return {Kind::Lengths, part.data(), part.size()};
    } else if constexpr (std::is_floating_point_v<Part>) {
      return {Kind::Real, &part, 0};
    } else {
      return {std::is_signed_v<Part> ? Kind::Signed : Kind::Unsigned, nullptr,
              static_cast<uint64_t>(part)};
    }
  }
};
[[gnu::cold]] Status makeErrorOf(Code code, const MessagePart *parts, size_t count);

/// A failure whose message is the parts in a row.
template <typename... Parts> Status makeError(Code code, const Parts &...parts) {
  const MessagePart all[] = {MessagePart::of(parts)...};
  return makeErrorOf(code, all, sizeof...(parts));
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
