// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Words in messages, "did you mean" among them: the known word nearest to a misspelt one.
#ifndef MLBRIDGE_CORE_NEAREST_H
#define MLBRIDGE_CORE_NEAREST_H

#include <mlbridge/status.h>
#include <mlbridge/tensor.h>

#include <string>
#include <string_view>
#include <vector>

namespace mlbridge {

/// The word with the least edit distance, if that is small for its length; else empty. Looks at
/// some thousand words at most.
std::string_view nearest(std::string_view word, Span<const std::string_view> known);
/// "; did you mean 'x'?" or nothing.
std::string didYouMean(std::string_view word, Span<const std::string_view> known);
/// The same and all that is known: "; did you mean 'a'? (agents: a, b)".
std::string suggestion(std::string_view word, Span<const std::string_view> known,
                       std::string_view what);
std::vector<std::string_view> viewsOf(Span<const std::string> words);
std::vector<std::string_view> namesOf(Span<const TensorSpec> specs);
std::vector<std::string_view> namesOf(Span<const AgentSpec> agents);
/// "a, b, c", or "none". Cut where there are very many.
std::string listOf(Span<const std::string_view> words);
/// Refuses an option of a model's URI, whose engine or transport takes those that are known,
/// besides those that every model takes.
Status unknownOption(std::string_view scheme, std::string_view key,
                     Span<const std::string_view> known);
/// What a message takes over from elsewhere: the text, cut at a character with a mark if it is
/// long.
inline constexpr size_t MostText = 4096;
std::string shortened(std::string text);
bool isUtf8(std::string_view text);
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

} // namespace mlbridge

#endif
