// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "core/descriptor.h"

#include <cstring>
#include <unistd.h>

namespace mlbridge {

Descriptor &Descriptor::operator=(Descriptor &&other) noexcept {
  if (this != &other) {
    reset();
    fd_ = other.release();
  }
  return *this;
}

void Descriptor::reset() {
  if (fd_ >= 0)
    ::close(fd_);
  fd_ = -1;
}

std::string describeErrno(const std::string &what, int error) {
  char text[128];
  // The GNU strerror_r returns the text and may not use the buffer.
  return what + ": " + strerror_r(error, text, sizeof text);
}

} // namespace mlbridge
