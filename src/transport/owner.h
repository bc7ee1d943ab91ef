// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The owner of a file or a peer: another user could read what is sent, and answer.
#ifndef MLBRIDGE_TRANSPORT_OWNER_H
#define MLBRIDGE_TRANSPORT_OWNER_H

#include <mlbridge/status.h>

#include <string>
#include <sys/stat.h>
#include <unistd.h>

namespace mlbridge {

/// A compiler trusts a server of this user or of the superuser.
inline bool isTrusted(uid_t user) { return user == ::geteuid() || user == 0; }

/// InvalidArgument; `what` begins with the scheme.
inline Status ofAnotherUser(const std::string &what, uid_t user) {
  return Status(Code::InvalidArgument,
                what + " belongs to user " + std::to_string(user) + ", and this process to user " +
                    std::to_string(::geteuid()) + ": choose a place of one's own");
}

inline bool isSameFile(const struct stat &one, const struct stat &other) {
  return one.st_dev == other.st_dev && one.st_ino == other.st_ino;
}

} // namespace mlbridge

#endif
