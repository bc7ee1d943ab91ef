// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A file descriptor with an owner, and what errno says.
#ifndef MLBRIDGE_CORE_DESCRIPTOR_H
#define MLBRIDGE_CORE_DESCRIPTOR_H

#include <cstring>
#include <string>
#include <unistd.h>
#include <utility>

namespace mlbridge {

/// A file descriptor that closes itself. Header only, so that components have it too.
class Descriptor {
public:
  Descriptor() = default;
  explicit Descriptor(int fd) : fd_(fd) {}
  Descriptor(Descriptor &&other) noexcept : fd_(other.release()) {}
  Descriptor &operator=(Descriptor &&other) noexcept {
    if (this != &other) {
      reset();
      fd_ = other.release();
    }
    return *this;
  }
  ~Descriptor() { reset(); }
  int get() const { return fd_; }
  explicit operator bool() const { return fd_ >= 0; }
  int release() { return std::exchange(fd_, -1); }
  void reset() {
    if (fd_ >= 0)
      ::close(fd_);
    fd_ = -1;
  }

private:
  int fd_ = -1;
};

/// "connect to /tmp/x: Permission denied".
inline std::string describeErrno(const std::string &what, int error) {
  char text[128];
  // The GNU strerror_r returns the text and may not use the buffer.
  return what + ": " + strerror_r(error, text, sizeof text);
}

} // namespace mlbridge

#endif
