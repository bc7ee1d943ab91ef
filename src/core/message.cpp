// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "core/message.h"

#include <cstdint>

namespace mlbridge {

std::string joinOf(uint64_t kinds, va_list parts) {
  std::string text;
  for (; kinds; kinds >>= 4) {
    switch (static_cast<PartKind>(kinds & 15)) {
    case PartKind::End:
      break;
    case PartKind::Text:
      text += va_arg(parts, const char *);
      break;
    case PartKind::String:
      text += *va_arg(parts, const std::string *);
      break;
    case PartKind::View:
      text += *va_arg(parts, const std::string_view *);
      break;
    case PartKind::Signed:
      text += std::to_string(va_arg(parts, int64_t));
      break;
    case PartKind::Unsigned:
      text += std::to_string(va_arg(parts, uint64_t));
      break;
    case PartKind::Real:
      text += std::to_string(va_arg(parts, double));
      break;
    case PartKind::Shape:
      text += toString(*va_arg(parts, const Shape *));
      break;
    case PartKind::Lengths:
      text += toString(*va_arg(parts, const Span<const int64_t> *));
      break;
    }
  }
  return text;
}

std::string joinOf(uint64_t kinds, ...) {
  va_list parts;
  va_start(parts, kinds);
  std::string text = joinOf(kinds, parts);
  va_end(parts);
  return text;
}

Status makeErrorOf(Code code, uint64_t kinds, ...) {
  va_list parts;
  va_start(parts, kinds);
  std::string text = joinOf(kinds, parts);
  va_end(parts);
  return Status(code, std::move(text));
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
