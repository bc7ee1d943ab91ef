// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "serdes/protobuf/codec.h"
#include "core/component_values.h"

#include <algorithm>

namespace mlbridge::protobuf {

Codec::~Codec() = default;

mlb_code fail(mlb_error *error, Code code, const std::string &message) {
  fill(error, message);
  return static_cast<mlb_code>(code);
}

std::string about(const TensorSpec &spec) { return "tensor '" + spec.name + "'"; }

std::string noBool(const TensorSpec &spec, size_t element, uint8_t value) {
  return about(spec) + " element " + std::to_string(element) + " is " + std::to_string(value) +
         ", a bool is 0 or 1";
}

std::string quoted(std::string_view text) {
  constexpr size_t Most = 80;
  const bool utf8 = isUtf8(text);
  std::string result = "'";
  for (const char c : text.substr(0, Most)) {
    const auto byte = static_cast<unsigned char>(c);
    result +=
        byte < 0x20 || byte == 0x7f || (byte >= 0x80 && (!utf8 || text.size() > Most)) ? '?' : c;
  }
  return result + (text.size() > Most ? "...'" : "'");
}

bool isUtf8(std::string_view text) {
  const auto *at = reinterpret_cast<const unsigned char *>(text.data());
  const unsigned char *end = at + text.size();
  while (at != end) {
    const unsigned char first = *at++;
    if (first < 0x80)
      continue;
    // Following bytes, and the range of the first of them, which keeps out what is too long, the
    // surrogates and what is above U+10FFFF.
    int more = first >= 0xc2 && first <= 0xdf ? 1 : first >= 0xe0 && first <= 0xef ? 2 : 3;
    if (first < 0xc2 || first > 0xf4 || end - at < more)
      return false;
    const unsigned char low = first == 0xe0 ? 0xa0 : first == 0xf0 ? 0x90 : 0x80;
    const unsigned char high = first == 0xed ? 0x9f : first == 0xf4 ? 0x8f : 0xbf;
    if (*at < low || *at > high)
      return false;
    for (; more > 0; --more, ++at)
      if ((*at & 0xc0) != 0x80)
        return false;
  }
  return true;
}

size_t findNoBool(const uint8_t *bytes, size_t count) {
  uint8_t all = 0;
  for (size_t k = 0; k < count; ++k)
    all |= bytes[k];
  if (all <= 1)
    return count;
  return static_cast<size_t>(std::find_if(bytes, bytes + count, [](uint8_t b) { return b > 1; }) -
                             bytes);
}

} // namespace mlbridge::protobuf
