// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Memory that a library of others needs, and without which it would end the process: had for a
// moment, to see that it can be had.
#ifndef MLBRIDGE_CORE_RESOURCES_H
#define MLBRIDGE_CORE_RESOURCES_H

#include "core/descriptor.h"

#include <mlbridge/status.h>

#include <cerrno>
#include <string>
#include <sys/mman.h>

namespace mlbridge {

/// Address space that is taken while this lives, and never touched; it is not memory that the
/// system must have.
class Reserved {
public:
  explicit Reserved(size_t size)
      : size_(size),
        at_(::mmap(nullptr, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0)),
        error_(at_ == MAP_FAILED ? errno : 0) {}
  ~Reserved() {
    if (at_ != MAP_FAILED)
      ::munmap(at_, size_);
  }
  Reserved(const Reserved &) = delete;
  Reserved &operator=(const Reserved &) = delete;

  /// LimitExceeded if there is none. `whose` is for the message.
  Status status(const std::string &whose) const {
    if (!error_)
      return Status();
    return Status(
        Code::LimitExceeded,
        describeErrno("reserve " + std::to_string(size_ >> 20) + " MiB for " + whose, error_));
  }

private:
  const size_t size_;
  void *const at_;
  const int error_;
};

} // namespace mlbridge

#endif
