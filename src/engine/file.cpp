// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "engine/file.h"

#include "core/descriptor.h"

#include <algorithm>
#include <cerrno>
#include <fcntl.h>
#include <sys/stat.h>
#include <system_error>
#include <unistd.h>
#include <utility>

namespace mlbridge::engine {
namespace {

std::string reason(int error) { return std::generic_category().message(error); }

/// A regular file, open, and its size.
struct Opened {
  Descriptor file;
  uint64_t size;
};

Expected<Opened> openFile(const std::string &path, uint64_t limit) {
  if (path.empty() || path.find('\0') != std::string::npos)
    return Status(Code::InvalidArgument, "the URI names no file; write a path after the colon");
  Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  if (file.get() < 0)
    return makeError(errno == ENOENT || errno == ENOTDIR ? Code::NotFound : Code::InvalidArgument,
                     path, " cannot be opened: ", reason(errno));
  struct stat info;
  if (::fstat(file.get(), &info) != 0)
    return makeError(Code::InvalidArgument, path, " cannot be read: ", reason(errno));
  if (!S_ISREG(info.st_mode))
    return makeError(Code::InvalidArgument, path, " is ",
                     S_ISDIR(info.st_mode) ? "a folder" : "not a regular file");
  const auto size = static_cast<uint64_t>(info.st_size);
  if (size > limit)
    return makeError(Code::LimitExceeded, path, " has ", size, " bytes; the limit is ", limit);
  return Opened{std::move(file), size};
}

/// `size` bytes from where the file stands; `done` and `all` are for the message.
Status readBytes(const Descriptor &file, const std::string &path, uint8_t *to, uint64_t size,
                 uint64_t done, uint64_t all, const Deadline &deadline = {}) {
  constexpr uint64_t Part = uint64_t(1) << 22; // so that the deadline is looked at
  constexpr uint64_t GivenBack = 4;            // bytes in a nanosecond
  while (size > 0) {
    if (deadline.left() <= std::chrono::nanoseconds(done / GivenBack))
      return makeError(Code::DeadlineExceeded, "the deadline passed while ", path, " was read");
    const ssize_t got = ::read(file.get(), to, std::min(size, Part));
    if (got < 0 && errno == EINTR)
      continue;
    if (got < 0)
      return makeError(Code::InvalidArgument, path, " cannot be read: ", reason(errno));
    if (got == 0)
      return makeError(Code::InvalidModel, path, " became shorter while it was read: ", done,
                       " of ", all, " bytes");
    to += got;
    done += static_cast<uint64_t>(got);
    size -= static_cast<uint64_t>(got);
  }
  return Status();
}

} // namespace

Expected<Buffer> readFile(const std::string &path, uint64_t limit, const Deadline &deadline) {
  const Expected<Opened> from = openFile(path, limit);
  if (!from)
    return from.status();
  Buffer bytes;
  if (Status s = bytes.resize(from->size); !s)
    return s.withContext(path);
  if (Status s = readBytes(from->file, path, bytes.data(), from->size, 0, from->size, deadline); !s)
    return s;
  return bytes;
}

Expected<Buffer> copyBytes(Span<const uint8_t> bytes, uint64_t limit) {
  if (bytes.size() > limit)
    return makeError(Code::LimitExceeded, "the model has ", bytes.size(), " bytes; the limit is ",
                     limit);
  Buffer copy;
  if (Status s = copy.append(bytes.data(), bytes.size()); !s)
    return s;
  return copy;
}

Status copyFile(const std::string &path, uint64_t limit, int target) {
  const Expected<Opened> from = openFile(path, limit);
  if (!from)
    return from.status();
  // Small, so that its pages are touched once and not for each part of the file.
  constexpr uint64_t Part = 1 << 16;
  Buffer bytes;
  if (Status s = bytes.resize(std::min(from->size, Part)); !s)
    return s.withContext(path);
  for (uint64_t done = 0; done < from->size;) {
    const uint64_t size = std::min(from->size - done, Part);
    if (Status s = readBytes(from->file, path, bytes.data(), size, done, from->size); !s)
      return s;
    done += size;
    for (uint64_t at = 0; at < size;) {
      const ssize_t written = ::write(target, bytes.data() + at, size - at);
      if (written < 0 && errno == EINTR)
        continue;
      if (written <= 0)
        return makeError(Code::LimitExceeded, path, " cannot be copied: ", reason(errno));
      at += static_cast<uint64_t>(written);
    }
  }
  return Status();
}

} // namespace mlbridge::engine
