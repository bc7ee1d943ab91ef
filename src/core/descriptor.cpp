// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "core/descriptor.h"

#include <cstring>

namespace mlbridge {

std::string describeErrno(const std::string &what, int error) {
  char text[128];
  // The GNU strerror_r returns the text and may not use the buffer.
  return what + ": " + strerror_r(error, text, sizeof text);
}

} // namespace mlbridge
