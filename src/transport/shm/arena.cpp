// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "transport/shm/arena.h"

#include <cerrno>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

namespace mlbridge {

namespace {

/// A private mapping shows what the writer writes until a page of it is written here.
class ShmView final : public ArenaView {
public:
  ShmView(std::shared_ptr<const SharedMemory> memory, void *data, uint64_t offset,
          uint64_t capacity)
      : ArenaView(static_cast<const uint8_t *>(data), offset, capacity),
        memory_(std::move(memory)) {}
  ~ShmView() override { ::munmap(const_cast<uint8_t *>(data_), capacity_); }

  Status keep() override {
    auto *bytes = const_cast<uint8_t *>(data_);
    if (::mprotect(bytes, capacity_, PROT_READ | PROT_WRITE) != 0)
      return Status(Code::LimitExceeded, describeErrno("shared memory: keep a copy", errno));
    // The kernel copies each page; others may go on reading them meanwhile.
    const auto page = static_cast<size_t>(::sysconf(_SC_PAGESIZE));
    for (volatile uint8_t *at = bytes; at < bytes + capacity_; at += page)
      *at = *at;
    kept_ = true;
    return Status();
  }

private:
  const std::shared_ptr<const SharedMemory> memory_;
};

} // namespace

ShmArena::ShmArena(std::shared_ptr<SharedMemory> memory) : memory_(std::move(memory)) {
  const uint64_t start = (memory_->arenaOffset() + LeastSlot - 1) & ~uint64_t(LeastSlot - 1);
  if (start < memory_->size())
    free_[start] = memory_->size() - start;
}

std::shared_ptr<const ArenaSlot> ShmArena::take(size_t size) {
  if (size > memory_->size())
    return nullptr;
  uint64_t capacity = LeastSlot;
  while (capacity < size)
    capacity *= 2;
  uint64_t offset = 0;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    for (auto &[start, length] : free_) {
      if (length < capacity)
        continue;
      offset = start;
      if (length > capacity)
        free_[start + capacity] = length - capacity;
      free_.erase(start);
      break;
    }
  }
  if (offset == 0)
    return nullptr;
  // Without memory there would be nothing but SIGBUS to say so.
  if (::posix_fallocate(memory_->descriptor(), static_cast<off_t>(offset),
                        static_cast<off_t>(capacity)) != 0) {
    giveBack(offset, capacity);
    return nullptr;
  }
  auto *slot = new ArenaSlot{this, memory_->bytes() + offset, offset, capacity};
  return std::shared_ptr<const ArenaSlot>(slot,
                                          [arena = shared_from_this()](const ArenaSlot *taken) {
                                            arena->giveBack(taken->offset, taken->capacity);
                                            delete taken;
                                          });
}

void ShmArena::giveBack(uint64_t offset, uint64_t capacity) {
  const std::lock_guard<std::mutex> lock(mutex_);
  auto next = free_.emplace(offset, capacity).first;
  if (next != free_.begin()) {
    auto before = std::prev(next);
    if (before->first + before->second == offset) {
      before->second += capacity;
      free_.erase(next);
      next = before;
    }
  }
  const auto after = std::next(next);
  if (after != free_.end() && next->first + next->second == after->first) {
    next->second += after->second;
    free_.erase(after);
  }
}

Expected<std::shared_ptr<ArenaView>> ShmArena::view(uint64_t offset, uint64_t capacity) const {
  const uint64_t size = memory_->size();
  if (offset < memory_->arenaOffset() || offset % LeastSlot != 0 || offset > size ||
      capacity == 0 || capacity % LeastSlot != 0 || capacity > size - offset)
    return Status(Code::Protocol, "shared memory: the peer states " + std::to_string(capacity) +
                                      " bytes at offset " + std::to_string(offset) + " of " +
                                      std::to_string(size) + ", after " +
                                      std::to_string(memory_->arenaOffset()) + " that are taken");
  void *data = ::mmap(nullptr, capacity, PROT_READ, MAP_PRIVATE, memory_->descriptor(),
                      static_cast<off_t>(offset));
  if (data == MAP_FAILED)
    return Status(
        Code::LimitExceeded,
        describeErrno("shared memory: map " + std::to_string(capacity) + " bytes", errno));
  return std::shared_ptr<ArenaView>(new ShmView(memory_, data, offset, capacity));
}

} // namespace mlbridge
