// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "engine/file.h"

#include <cerrno>
#include <fcntl.h>
#include <sys/stat.h>
#include <system_error>
#include <unistd.h>

namespace mlbridge::engine {
namespace {

class Descriptor {
public:
  explicit Descriptor(int number) : number_(number) {}
  Descriptor(const Descriptor &) = delete;
  Descriptor &operator=(const Descriptor &) = delete;
  ~Descriptor() {
    if (number_ >= 0)
      ::close(number_);
  }
  int get() const { return number_; }

private:
  int number_;
};

std::string reason(int error) { return std::generic_category().message(error); }

} // namespace

Expected<Buffer> readFile(const std::string &path, uint64_t limit) {
  if (path.empty() || path.find('\0') != std::string::npos)
    return Status(Code::InvalidArgument, "the URI names no file; write a path after the colon");
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  if (file.get() < 0) {
    const int error = errno;
    const bool missing = error == ENOENT || error == ENOTDIR;
    return Status(missing ? Code::NotFound : Code::InvalidArgument,
                  path + " cannot be opened: " + reason(error));
  }
  struct stat info;
  if (::fstat(file.get(), &info) != 0)
    return Status(Code::InvalidArgument, path + " cannot be read: " + reason(errno));
  if (!S_ISREG(info.st_mode))
    return Status(Code::InvalidArgument,
                  path + " is " + (S_ISDIR(info.st_mode) ? "a folder" : "no regular file"));
  const auto size = static_cast<uint64_t>(info.st_size);
  if (size > limit)
    return Status(Code::LimitExceeded, path + " has " + std::to_string(size) +
                                           " bytes; the limit is " + std::to_string(limit));
  Buffer bytes;
  if (Status s = bytes.resize(size); !s)
    return Status(s.code(), path + ": " + s.message());
  uint64_t done = 0;
  while (done < size) {
    const ssize_t got = ::read(file.get(), bytes.data() + done, size - done);
    if (got < 0 && errno == EINTR)
      continue;
    if (got < 0)
      return Status(Code::InvalidArgument, path + " cannot be read: " + reason(errno));
    if (got == 0)
      return Status(Code::InvalidModel,
                    path + " became shorter while it was read: " + std::to_string(done) + " of " +
                        std::to_string(size) + " bytes");
    done += static_cast<uint64_t>(got);
  }
  return bytes;
}

} // namespace mlbridge::engine
