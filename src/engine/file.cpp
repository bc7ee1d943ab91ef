// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "engine/file.h"

#include "core/descriptor.h"
#include "core/message.h"

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
    return makeError(Code::InvalidArgument, "the URI names no file; write a path after the colon");
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

std::string folderOf(const std::string &path) {
  const size_t slash = path.rfind('/');
  return slash == std::string::npos ? "./" : path.substr(0, slash + 1);
}

static Expected<Buffer> copyBytes(Span<const uint8_t> bytes, uint64_t limit) {
  if (bytes.size() > limit)
    return makeError(Code::LimitExceeded, "the model has ", bytes.size(), " bytes; the limit is ",
                     limit);
  Buffer copy;
  if (Status s = copy.append(bytes.data(), bytes.size()); !s)
    return s;
  return copy;
}

Expected<Buffer> readModelFile(const std::string &path, const Span<const uint8_t> *memory,
                               uint64_t limit, const Deadline &deadline) {
  Expected<Buffer> bytes = memory ? copyBytes(*memory, limit) : readFile(path, limit, deadline);
  if (bytes && bytes->empty())
    return makeError(Code::InvalidModel, path, " is empty");
  if (const std::string description = bytes ? whatInstead(bytes->span()) : ""; !description.empty())
    return makeError(Code::InvalidModel, path, " is ", description);
  return bytes;
}

std::string whatInstead(Span<const uint8_t> bytes) {
  const std::string_view file(reinterpret_cast<const char *>(bytes.data()), bytes.size());
  struct Kind {
    std::string_view begin;
    const char *description;
  };
  constexpr Kind Texts[] = {
      {"version https://git-lfs.github.com",
       "a Git LFS pointer and not the file itself; 'git lfs pull' fetches it"},
      {"<!doctype html", "an HTML page and not a model; download the file that it links to"},
      {"<html", "an HTML page and not a model; download the file that it links to"},
      {"<?xml", "XML and not a model, perhaps a server's error; download the file again"}};
  constexpr Kind Binaries[] = {
      {"PK\x03\x04",
       "a zip archive, such as PyTorch writes, and not an ONNX file; export the model "
       "with torch.onnx.export"},
      {"\x89HDF", "an HDF5 file, such as Keras writes, and not an ONNX file; export the model as "
                  "ONNX"},
      {"\x1f\x8b", "compressed by gzip; unpack it"},
      {"\x7f"
       "ELF",
       "a shared object and not an ONNX file; open it with aot:"}};
  // The texts may come after a byte order mark and blanks, and in capital letters.
  size_t begin = file.substr(0, 3) == "\xef\xbb\xbf" ? 3 : 0;
  begin = std::min(file.find_first_not_of(" \t\r\n", begin), file.size());
  const auto equal = [](char a, char b) {
    return a == (b >= 'A' && b <= 'Z' ? static_cast<char>(b - 'A' + 'a') : b);
  };
  for (const Kind &kind : Texts) {
    const std::string_view head = file.substr(begin, kind.begin.size());
    if (std::equal(kind.begin.begin(), kind.begin.end(), head.begin(), head.end(), equal))
      return kind.description;
  }
  for (const Kind &kind : Binaries)
    if (file.substr(0, kind.begin.size()) == kind.begin)
      return kind.description;
  return {};
}

Status copyFile(const std::string &path, uint64_t limit, int target) {
  const Expected<Opened> from = openFile(path, limit);
  if (!from)
    return from.status();
  // A part is small, so that its pages are touched once and not for each part of the file.
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
