// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The memory that the two ends of shm:PATH share, and how it is handed over.
#ifndef MLBRIDGE_TRANSPORT_SHM_MEMORY_H
#define MLBRIDGE_TRANSPORT_SHM_MEMORY_H

#include "transport/shm/ring.h"
#include "transport/transport.h"

namespace mlbridge {

/// A mapping of sealed memory: a control page, then the two rings, then an arena. Nobody can make
/// it shorter.
class SharedMemory {
public:
  static constexpr size_t ControlSize = 4096;
  static constexpr size_t RingSize = 256 * 1024;         ///< what we make; a peer may make others
  static constexpr size_t ArenaSize = size_t(256) << 20; ///< the same; takes memory when used
  static constexpr size_t LeastRing = 4096, MostRing = size_t(1) << 20;

  /// What is said of it when it is handed over.
  struct Announcement {
    static constexpr size_t Size = 32;
    uint64_t size = 0, ring = 0;
    void encode(uint8_t *to) const;
    /// Errors: Protocol.
    static Expected<Announcement> decode(const uint8_t *from, size_t size);
  };

  /// Without an arena if that much cannot be had. Errors: LimitExceeded.
  static Expected<std::shared_ptr<SharedMemory>> make();
  /// Maps the rings of what a peer made. Errors: Protocol (not sealed, of another size or kind),
  /// LimitExceeded.
  static Expected<std::shared_ptr<SharedMemory>> adopt(Descriptor memory, const Announcement &said);
  ~SharedMemory();

  int descriptor() const { return memory_.get(); }
  /// All of what we made, the rings of what a peer made.
  uint8_t *bytes() const { return bytes_; }
  size_t size() const { return size_; }
  size_t arenaOffset() const { return ControlSize + 2 * ring_; }
  Announcement announcement() const { return {size_, ring_}; }

  RingReader readerOf(bool toServer) {
    return RingReader(control(toServer), ring(toServer), ring_);
  }
  RingWriter writerOf(bool toServer) {
    return RingWriter(control(toServer), ring(toServer), ring_);
  }
  RingControl &control(bool toServer) {
    return reinterpret_cast<RingControl *>(bytes_)[toServer ? 0 : 1];
  }

private:
  SharedMemory(Descriptor memory, uint8_t *bytes, size_t mapped, const Announcement &said)
      : memory_(std::move(memory)), bytes_(bytes), mapped_(mapped), size_(said.size),
        ring_(said.ring) {}
  static Expected<std::shared_ptr<SharedMemory>> map(Descriptor memory, const Announcement &said,
                                                     size_t mapped);
  static Expected<std::shared_ptr<SharedMemory>> make(size_t arena);
  uint8_t *ring(bool toServer) { return bytes_ + ControlSize + (toServer ? 0 : ring_); }

  const Descriptor memory_;
  uint8_t *const bytes_;
  const size_t mapped_, size_, ring_;
};

/// Sends the announcement, the memory and a further socket in one message. Errors: Closed,
/// LimitExceeded.
Status handOver(int socket, const SharedMemory &memory, int bell);

struct HandedOver {
  std::shared_ptr<SharedMemory> memory; ///< null if nothing has come yet
  Descriptor bell;
};
/// Takes them without blocking. Errors: Closed, Protocol, LimitExceeded.
Expected<HandedOver> takeOver(int socket);

} // namespace mlbridge

#endif
