// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Memory that both ends of a channel see, so that large tensors need not be sent.
#ifndef MLBRIDGE_TRANSPORT_ARENA_H
#define MLBRIDGE_TRANSPORT_ARENA_H

#include <mlbridge/status.h>

#include <memory>

namespace mlbridge {

class Arena;

/// A part of an arena that is its writer's until nobody has this any more.
struct ArenaSlot {
  const Arena *arena = nullptr;
  uint8_t *data = nullptr;
  uint64_t offset = 0, capacity = 0;
};

/// The same part as its reader sees it. The writer may change it at any time.
class ArenaView {
public:
  virtual ~ArenaView();
  const uint8_t *data() const { return data_; }
  uint64_t offset() const { return offset_; }
  uint64_t capacity() const { return capacity_; }
  bool isKept() const { return kept_; }
  /// From now on it stays as it is, at the same address, whatever the writer does. Errors:
  /// LimitExceeded.
  virtual Status keep() = 0;

protected:
  ArenaView(const uint8_t *data, uint64_t offset, uint64_t capacity)
      : data_(data), offset_(offset), capacity_(capacity) {}
  const uint8_t *const data_;
  const uint64_t offset_, capacity_;
  bool kept_ = false;
};

/// Thread-safe.
class Arena {
public:
  virtual ~Arena();
  /// At least `size` bytes; null if there is no room.
  virtual std::shared_ptr<const ArenaSlot> take(size_t size) = 0;
  /// What the peer says that it took. Errors: Protocol, LimitExceeded.
  virtual Expected<std::shared_ptr<ArenaView>> view(uint64_t offset, uint64_t capacity) const = 0;
};

} // namespace mlbridge

#endif
