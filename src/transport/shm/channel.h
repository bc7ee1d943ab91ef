// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// One end of shm:PATH: two rings in shared memory, and sockets that tell who is gone and wake who
// sleeps.
#ifndef MLBRIDGE_TRANSPORT_SHM_CHANNEL_H
#define MLBRIDGE_TRANSPORT_SHM_CHANNEL_H

#include "transport/shm/arena.h"

#include <atomic>
#include <optional>

namespace mlbridge {

class ShmChannel final : public Channel {
public:
  /// The compiler's end: makes the memory and hands it over. Errors: LimitExceeded, Closed.
  static Expected<std::unique_ptr<Channel>> connect(Descriptor socket);
  /// The server's end; takes the memory when it comes.
  explicit ShmChannel(Descriptor socket) : socket_(std::move(socket)), isServer_(true) {}

  Expected<size_t> read(uint8_t *to, size_t size) override;
  Expected<size_t> write(const iovec *parts, int count) override;
  int readDescriptor() const override { return socket_.get(); }
  int writeDescriptor() const override { return bell_ ? bell_.get() : socket_.get(); }
  short writeEvents() const override;
  bool isQuiet() const override { return true; }
  const char *advice() const override {
    return plain_ && !isServer_ ? "the server took no shared memory; it must listen at shm:PATH"
                                : "";
  }
  Readiness look(Readiness wanted) const override;
  bool prepareToSleep(Readiness wanted) override;
  std::shared_ptr<Arena> arena() const override { return ends_ ? ends_->arena : nullptr; }

private:
  /// A side's use of the memory, once it is there.
  struct Ends {
    Ends(std::shared_ptr<SharedMemory> shared, bool isServer);
    std::shared_ptr<SharedMemory> memory;
    std::shared_ptr<ShmArena> arena;
    RingReader reader;
    RingWriter writer;
    SleepFlag readerSleeps, writerSleeps;
    std::atomic<uint32_t> &peerReaderSleeps, &peerWriterSleeps;
  };

  ShmChannel(Descriptor socket, Descriptor bell, std::shared_ptr<SharedMemory> memory);
  Expected<bool> takeMemory();
  Expected<size_t> hear(uint8_t *to, size_t size);

  const Descriptor socket_; ///< rung when there is something to read; its end is the peer's
  const bool isServer_;
  Descriptor bell_; ///< rung when there is room to write
  std::optional<Ends> ends_;
  // The reader's.
  bool bellRings_ = false; ///< a byte of it is or will be in the socket
  bool ended_ = false;
  /// The server answers over the socket itself; the writer looks at this too.
  std::atomic<bool> plain_{false};
  // The writer's.
  bool writerBellRings_ = false;
};

} // namespace mlbridge

#endif
