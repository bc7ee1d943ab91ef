// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A growable byte buffer, aligned to 64 bytes, whose growth leaves new bytes unspecified, and which
// always has 64 readable bytes after its end (what vectorized parsers ask for).
#ifndef MLBRIDGE_CORE_BUFFER_H
#define MLBRIDGE_CORE_BUFFER_H

#include "core/message.h"

#include <cstdlib>
#include <cstring>
#include <new>
#include <sys/mman.h>

namespace mlbridge {

class Buffer {
public:
  static constexpr size_t Padding = 64;

  Buffer() = default;
  Buffer(const Buffer &) = delete;
  Buffer &operator=(const Buffer &) = delete;
  Buffer(Buffer &&other) noexcept { swap(other); }
  Buffer &operator=(Buffer &&other) noexcept {
    swap(other);
    return *this;
  }
  ~Buffer() { std::free(data_); }

  uint8_t *data() { return data_; }
  const uint8_t *data() const { return data_; }
  size_t size() const { return size_; }
  size_t capacity() const { return capacity_; }
  bool empty() const { return size_ == 0; }
  Span<const uint8_t> span() const { return {data_, size_}; }

  /// LimitExceeded if the memory cannot be had.
  Status reserve(size_t capacity) {
    if (capacity <= capacity_)
      return Status();
    size_t wanted = std::max(capacity, capacity_ + capacity_ / 2);
    wanted = (wanted + 63) & ~size_t(63);
    // Much memory is asked for in huge pages, whole ones if they aren't much more: most of the time
    // that its first use takes is that of faults.
    constexpr size_t HugePage = size_t(1) << 21;
    const bool isLarge = wanted >= HugePage;
    const size_t whole = (wanted + Padding + HugePage - 1) / HugePage * HugePage - Padding;
    if (isLarge && whole - wanted <= wanted / 8)
      wanted = whole;
    void *fresh = nullptr;
    if (wanted < capacity ||
        ::posix_memalign(&fresh, isLarge ? HugePage : 64, wanted + Padding) != 0)
      return makeError(Code::LimitExceeded, "no memory for ", capacity, " bytes");
    if (isLarge)
      (void)::madvise(fresh, wanted + Padding, MADV_HUGEPAGE);
    if (size_)
      std::memcpy(fresh, data_, size_);
    std::free(data_);
    data_ = static_cast<uint8_t *>(fresh);
    capacity_ = wanted;
    return Status();
  }
  Status resize(size_t size) {
    if (Status s = reserve(size); !s)
      return s;
    size_ = size;
    return Status();
  }
  Status append(const void *bytes, size_t size) {
    if (Status s = reserve(size_ + size); !s)
      return s;
    if (size)
      std::memcpy(data_ + size_, bytes, size);
    size_ += size;
    return Status();
  }
  void clear() { size_ = 0; }
  void swap(Buffer &other) noexcept {
    std::swap(data_, other.data_);
    std::swap(size_, other.size_);
    std::swap(capacity_, other.capacity_);
  }

private:
  uint8_t *data_ = nullptr;
  size_t size_ = 0;
  size_t capacity_ = 0;
};

} // namespace mlbridge

#endif
