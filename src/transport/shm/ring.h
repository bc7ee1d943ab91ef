// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A ring of bytes in memory that two processes share, with one producer and one consumer. Each side
// trusts only the position that it keeps itself.
#ifndef MLBRIDGE_TRANSPORT_SHM_RING_H
#define MLBRIDGE_TRANSPORT_SHM_RING_H

#include <mlbridge/status.h>

#include <atomic>
#include <cstddef>
#include <sys/uio.h>

namespace mlbridge {

/// What the two ends of a ring tell each other. Each field has cache lines of its own.
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
  /// Whether the other side has seen it, so that its bell rings or will.
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
  /// As much as there is room for. Errors: Protocol (the consumer's position is impossible).
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

} // namespace mlbridge

#endif
