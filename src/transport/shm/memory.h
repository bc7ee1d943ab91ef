// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The memory that the two ends of shm:PATH share, what is in it, and how it is handed over.
#ifndef MLBRIDGE_TRANSPORT_SHM_MEMORY_H
#define MLBRIDGE_TRANSPORT_SHM_MEMORY_H

#include "transport/transport.h"

#include <atomic>
#include <cstddef>
#include <map>
#include <mutex>
#include <sys/uio.h>

namespace mlbridge {

// A ring of bytes, with one producer and one consumer. Each side trusts only the position that it
// keeps itself.

/// The words that the two ends of a ring tell each other. Each field has cache lines of its own.
struct RingControl {
  /// Bytes ever written, and ever read; the first is the producer's, the second the consumer's.
  alignas(128) std::atomic<uint64_t> written;
  alignas(128) std::atomic<uint64_t> taken;
  /// 1: this side sleeps, and wants a bell when there is something to read, or room to write.
  alignas(128) std::atomic<uint32_t> readerSleeps;
  alignas(128) std::atomic<uint32_t> writerSleeps;
};
static_assert(sizeof(RingControl) == 512 && std::atomic<uint64_t>::is_always_lock_free &&
              std::atomic<uint32_t>::is_always_lock_free);

/// A flag by which one side says that it is about to sleep, so that the other rings a bell. Saying
/// so and looking, and publishing and looking at the flag, are all sequentially consistent: one of
/// the two sees the other.
class SleepFlag {
public:
  explicit SleepFlag(std::atomic<uint32_t> &flag) : flag_(&flag) {}
  /// The sleeper's.
  void raise() {
    raised_ = true;
    flag_->store(1);
  }
  bool isRaised() const { return raised_; }
  /// True if the other side has seen it, so that its bell rings or will.
  bool lower() {
    raised_ = false;
    return flag_->exchange(0) != 1;
  }

private:
  std::atomic<uint32_t> *flag_;
  bool raised_ = false; ///< what this side knows itself
};

/// The other side's end of the flag: whether to ring.
inline bool takeSleeper(std::atomic<uint32_t> &flag) {
  return flag.load() == 1 && flag.exchange(0) == 1;
}

class RingReader {
public:
  RingReader(RingControl &control, const uint8_t *bytes, size_t size)
      : control_(&control), bytes_(bytes), size_(size) {}
  /// At most `size` bytes; 0 if there are none. Errors: Protocol (the producer's position is
  /// impossible).
  Expected<size_t> read(uint8_t *to, size_t size);
  bool isUnused() const { return taken_ == 0; }
  /// Something to read, or an error.
  bool isReady() const { return control_->written.load() != taken_; }

private:
  RingControl *control_;
  const uint8_t *bytes_;
  size_t size_; ///< a power of two
  uint64_t taken_ = 0;
};

class RingWriter {
public:
  RingWriter(RingControl &control, uint8_t *bytes, size_t size)
      : control_(&control), bytes_(bytes), size_(size) {}
  /// Writes as much as there is room for. Errors: Protocol (the consumer's position is impossible).
  Expected<size_t> write(const iovec *parts, int count);
  /// Room, or an error.
  bool isReady() const { return written_ - control_->taken.load() != size_; }

private:
  RingControl *control_;
  uint8_t *bytes_;
  size_t size_;
  uint64_t written_ = 0;
  uint64_t knownTaken_ = 0;
};

/// A mapping of sealed memory: a control page, then the two rings, then an arena. Nobody can make
/// it shorter.
class SharedMemory {
public:
  static constexpr size_t ControlSize = 4096;
  static constexpr size_t RingSize = 256 * 1024;         ///< what we make; a peer may make others
  static constexpr size_t ArenaSize = size_t(256) << 20; ///< the same; takes memory when used
  static constexpr size_t LeastRing = 4096, MostRing = size_t(1) << 20;

  /// The description that is sent when it is handed over.
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

/// The arena of the memory, besides its rings.
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
