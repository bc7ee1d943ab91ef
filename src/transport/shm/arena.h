// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What the memory of shm:PATH has besides its rings.
#ifndef MLBRIDGE_TRANSPORT_SHM_ARENA_H
#define MLBRIDGE_TRANSPORT_SHM_ARENA_H

#include "transport/arena.h"
#include "transport/shm/memory.h"

#include <map>
#include <mutex>

namespace mlbridge {

class ShmArena final : public Arena, public std::enable_shared_from_this<ShmArena> {
public:
  static constexpr size_t LeastSlot = 64 * 1024; ///< a multiple of every page size

  explicit ShmArena(std::shared_ptr<SharedMemory> memory);
  std::shared_ptr<const ArenaSlot> take(size_t size) override;
  Expected<std::shared_ptr<ArenaView>> view(uint64_t offset, uint64_t capacity) const override;

private:
  void giveBack(uint64_t offset, uint64_t capacity);

  const std::shared_ptr<SharedMemory> memory_;
  std::mutex mutex_;
  std::map<uint64_t, uint64_t> free_; ///< offset and size
};

} // namespace mlbridge

#endif
