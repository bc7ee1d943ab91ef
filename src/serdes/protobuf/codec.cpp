// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "serdes/protobuf/codec.h"

namespace mlbridge::protobuf {

static std::string tooLong(const char *said, uint64_t size) {
  return "the message " + (said + (" " + std::to_string(size))) +
         " bytes, a protobuf message has at most " + std::to_string(MaxMessage);
}

mlb_code reserve(mlb_buffer &out, uint64_t size, mlb_error *error) {
  if (size > MaxMessage)
    return fail(error, Code::LimitExceeded, tooLong("would have", size));
  if (mlb_code code = out.reserve(&out, out.size + size))
    return fail(error, static_cast<Code>(code),
                "no memory for a message of " + std::to_string(size) + " bytes");
  return 0;
}

Status checkSize(uint64_t size) {
  return size > MaxMessage ? Status(Code::Protocol, tooLong("has", size)) : Status();
}

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

} // namespace mlbridge::protobuf
