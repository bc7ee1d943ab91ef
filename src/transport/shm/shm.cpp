// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// shm:PATH, memory shared by two processes that meet at a socket in the file system: two rings, and
// sockets that tell who is gone and wake who sleeps.
#include "core/message.h"
#include "transport/builtin.h"
#include "transport/shm/memory.h"
#include "transport/socket.h"

#include <atomic>
#include <cerrno>
#include <optional>
#include <poll.h>
#include <sys/socket.h>

namespace mlbridge {

namespace {

constexpr uint8_t Bell = 0;

/// A socket that is full of bells rings anyway.
Status ring(int socket) {
  while (::send(socket, &Bell, sizeof Bell, MSG_DONTWAIT | MSG_NOSIGNAL) < 0) {
    if (errno == EAGAIN)
      break;
    if (errno != EINTR)
      return Status(Code::Closed, describeErrno("wake the peer", errno));
  }
  return Status();
}

/// What is marked cold isn't part of a message, and is compiled for size.
class ShmChannel final : public Channel {
public:
  /// The compiler's end: makes the memory and hands it over. Errors: LimitExceeded, Closed.
  [[gnu::cold]] static Expected<std::unique_ptr<Channel>> connect(Descriptor socket) {
    Expected<std::shared_ptr<SharedMemory>> memory = SharedMemory::make();
    if (!memory)
      return memory.status();
    int pair[2];
    if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, pair) != 0)
      return Status(Code::LimitExceeded, describeErrno("shm: make a pair of sockets", errno));
    Descriptor bell(pair[0]);
    const Descriptor given(pair[1]);
    // A server that has closed already may have said why, which is for the reader.
    if (Status s = handOver(socket.get(), **memory, given.get()); !s && s.code() != Code::Closed)
      return s;
    return std::unique_ptr<Channel>(
        new ShmChannel(std::move(socket), std::move(bell), std::move(*memory)));
  }
  /// The server's end; takes the memory when it comes.
  [[gnu::cold]] static Expected<std::unique_ptr<Channel>> accept(Descriptor socket) {
    return std::unique_ptr<Channel>(new ShmChannel(std::move(socket)));
  }
  Expected<size_t> read(uint8_t *to, size_t size) override {
    if (!ends_ && !plain_) {
      Expected<bool> taken = takeMemory();
      if (!taken || !*taken)
        return taken ? Expected<size_t>(size_t(0)) : taken.status();
    }
    if (plain_)
      return readSocket(socket_.get(), to, size);
    Ends &ends = *ends_;
    if (ends.readerSleeps.isRaised() && ends.readerSleeps.lower())
      bellRings_ = true;
    // The socket may be heard before the ring is read, never after: what was written before the end
    // comes before the end.
    bool heard = false;
    while (true) {
      if (bellRings_ && !heard) {
        heard = true;
        if (Expected<size_t> plain = hear(to, size); plain && *plain)
          return plain;
      }
      Expected<size_t> n = ends.reader.read(to, size);
      if (!n)
        return n;
      if (*n) {
        if (takeSleeper(ends.peerWriterSleeps))
          (void)ring(bell_.get()); // the reader's own socket tells who is gone
        return n;
      }
      if (ended_)
        return makeError(Code::Closed, "the peer closed the connection");
      if (heard)
        return n;
      bellRings_ = true; // or something else is there
    }
  }
  Expected<size_t> write(const iovec *parts, int count) override {
    if (!ends_) { // refused before it said anything
      plain_ = true;
      return writeSocket(socket_.get(), parts, count);
    }
    Ends &ends = *ends_;
    if (ends.writerSleeps.isRaised() && ends.writerSleeps.lower())
      writerBellRings_ = true;
    Expected<size_t> n = ends.writer.write(parts, count);
    if (!n)
      return n;
    if (*n == 0 || writerBellRings_) {
      uint8_t bells[64];
      Expected<size_t> rung = readSocket(bell_.get(), bells, sizeof bells);
      if (!rung && *n == 0)
        return rung.status();
      if (rung && *rung)
        writerBellRings_ = false;
    }
    if (*n && takeSleeper(ends.peerReaderSleeps))
      if (Status s = ring(socket_.get()); !s)
        return s;
    return n;
  }
  int readDescriptor() const override { return socket_.get(); }
  int writeDescriptor() const override { return bell_ ? bell_.get() : socket_.get(); }
  short writeEvents() const override { return bell_ ? POLLIN : POLLOUT; }
  bool isQuiet() const override { return true; }
  const char *advice() const override {
    return plain_ && !isServer_ ? "the server accepts no shared memory; it must listen at shm:PATH"
                                : "";
  }
  Readiness look(Readiness wanted) const override {
    if (!ends_ || plain_)
      return {};
    return {wanted.read && ends_->reader.isReady(), wanted.write && ends_->writer.isReady()};
  }
  bool prepareToSleep(Readiness wanted) override {
    if (!ends_ || plain_)
      return true;
    Ends &ends = *ends_;
    const auto mayNotSleep = [](SleepFlag &flag, const auto &end) {
      if (!flag.isRaised())
        flag.raise();
      return end.isReady();
    };
    const bool readable = wanted.read && mayNotSleep(ends.readerSleeps, ends.reader);
    const bool writable = wanted.write && mayNotSleep(ends.writerSleeps, ends.writer);
    return !readable && !writable;
  }
  std::shared_ptr<Arena> arena() const override { return ends_ ? ends_->arena : nullptr; }

private:
  /// A side's use of the memory, once it is there.
  struct Ends {
    Ends(std::shared_ptr<SharedMemory> shared, bool isServer)
        : memory(std::move(shared)), arena(std::make_shared<ShmArena>(memory)),
          reader(memory->readerOf(isServer)), writer(memory->writerOf(!isServer)),
          readerSleeps(memory->control(isServer).readerSleeps),
          writerSleeps(memory->control(!isServer).writerSleeps),
          peerReaderSleeps(memory->control(!isServer).readerSleeps),
          peerWriterSleeps(memory->control(isServer).writerSleeps) {}
    std::shared_ptr<SharedMemory> memory;
    std::shared_ptr<ShmArena> arena;
    RingReader reader;
    RingWriter writer;
    SleepFlag readerSleeps, writerSleeps;
    std::atomic<uint32_t> &peerReaderSleeps, &peerWriterSleeps;
  };

  explicit ShmChannel(Descriptor socket) : socket_(std::move(socket)), isServer_(true) {}
  ShmChannel(Descriptor socket, Descriptor bell, std::shared_ptr<SharedMemory> memory)
      : socket_(std::move(socket)), isServer_(false), bell_(std::move(bell)) {
    ends_.emplace(std::move(memory), isServer_);
  }
  /// The server's end: whether the memory is there.
  [[gnu::cold]] Expected<bool> takeMemory() {
    Expected<HandedOver> taken = takeOver(socket_.get());
    if (!taken)
      return taken.status();
    if (!taken->memory)
      return false;
    bell_ = std::move(taken->bell);
    ends_.emplace(std::move(taken->memory), isServer_);
    return true;
  }
  /// Empties the reader's socket, using the caller's memory. What a server wrote that has not taken
  /// the memory stays there.
  [[gnu::cold]] Expected<size_t> hear(uint8_t *to, size_t size) {
    Expected<size_t> n = readSocket(socket_.get(), to, size);
    if (!n) {
      ended_ = true;
      return size_t(0);
    }
    if (*n == 0)
      return n;
    bellRings_ = false;
    plain_ = !isServer_ && to[0] != Bell && ends_->reader.isUnused();
    return plain_ ? *n : size_t(0);
  }

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

} // namespace

const Transport &shmTransport() {
  // Threads may run until the process ends.
  static const auto &transport =
      *new SocketTransport("shm", ShmChannel::connect, ShmChannel::accept);
  return transport;
}

} // namespace mlbridge
