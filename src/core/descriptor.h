// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A file descriptor with an owner, and what errno says.
#ifndef MLBRIDGE_CORE_DESCRIPTOR_H
#define MLBRIDGE_CORE_DESCRIPTOR_H

#include <string>

namespace mlbridge {

/// "connect to /tmp/x: Permission denied".
std::string describeErrno(const std::string &what, int error);

/// A file descriptor that closes itself.
class Descriptor {
public:
  Descriptor() = default;
  explicit Descriptor(int fd) : fd_(fd) {}
  Descriptor(Descriptor &&other) noexcept : fd_(other.release()) {}
  Descriptor &operator=(Descriptor &&other) noexcept;
  ~Descriptor() { reset(); }
  int get() const { return fd_; }
  explicit operator bool() const { return fd_ >= 0; }
  int release() {
    const int fd = fd_;
    fd_ = -1;
    return fd;
  }
  void reset();

private:
  int fd_ = -1;
};

} // namespace mlbridge

#endif
