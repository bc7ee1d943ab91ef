// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "core/utf8.h"

namespace mlbridge {

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

} // namespace mlbridge
