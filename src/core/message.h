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

/// A failure whose message is the parts in a row: texts, and integers in decimal.
template <typename... Parts> Status makeError(Code code, const Parts &...parts) {
  std::string message;
  const auto add = [&](const auto &part) {
    if constexpr (std::is_convertible_v<decltype(part), std::string_view>)
      message += part;
    else
      message += std::to_string(part);
  };
  (add(parts), ...);
  return Status(code, std::move(message));
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
