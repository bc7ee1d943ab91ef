// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "core/message.h"

#include <cstdint>

namespace mlbridge {

Status makeErrorOf(Code code, const MessagePart *parts, size_t count) {
  std::string message;
  for (size_t i = 0; i < count; ++i) {
    const MessagePart &part = parts[i];
    switch (part.kind) {
    case MessagePart::Kind::Text:
      message.append(static_cast<const char *>(part.data), part.bits);
      break;
    case MessagePart::Kind::Signed:
      message += std::to_string(static_cast<int64_t>(part.bits));
      break;
    case MessagePart::Kind::Unsigned:
      message += std::to_string(part.bits);
      break;
    case MessagePart::Kind::Real:
      message += std::to_string(*static_cast<const double *>(part.data));
      break;
    case MessagePart::Kind::Lengths:
      message += toString(Span<const int64_t>(static_cast<const int64_t *>(part.data), part.bits));
      break;
    }
  }
  return Status(code, std::move(message));
}

std::vector<std::string_view> viewsOf(Span<const std::string> words) {
  return {words.begin(), words.end()};
}

template <typename Named> static std::vector<std::string_view> namesOfAll(Span<const Named> all) {
  std::vector<std::string_view> names;
  names.reserve(all.size());
  for (const Named &one : all)
    names.push_back(one.name);
  return names;
}

std::vector<std::string_view> namesOf(Span<const TensorSpec> specs) { return namesOfAll(specs); }
std::vector<std::string_view> namesOf(Span<const AgentSpec> agents) { return namesOfAll(agents); }

std::string listOf(Span<const std::string_view> words) {
  if (words.empty())
    return "none";
  std::string text;
  for (const std::string_view &word : words) {
    text.append(text.empty() ? "" : ", ").append(word);
    if (text.size() > MostText)
      break;
  }
  return shortened(std::move(text));
}

std::string shortened(std::string text) {
  if (text.size() <= MostText)
    return text;
  size_t end = MostText;
  while (end > MostText - 4 && (static_cast<uint8_t>(text[end]) & 0xc0) == 0x80)
    --end; // the rest of a character in UTF-8
  const size_t size = text.size();
  text.resize(end);
  return text + " [... cut, it has " + std::to_string(size) + " bytes]";
}

} // namespace mlbridge
