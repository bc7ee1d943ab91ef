// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Moves bytes between two ends; knows nothing of frames or tensors. Ends never block: whoever uses
// them waits, with a Deadline, on their descriptors.
#ifndef MLBRIDGE_TRANSPORT_TRANSPORT_H
#define MLBRIDGE_TRANSPORT_TRANSPORT_H

#include "core/buffer.h"
#include "core/descriptor.h"
#include <mlbridge/deadline.h>
#include <mlbridge/status.h>
#include <mlbridge/uri.h>

#include <cerrno>
#include <memory>
#include <poll.h>
#include <sys/uio.h>

namespace mlbridge {

// Memory that both ends of a channel see, so that large tensors need not be sent.

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
  virtual ~ArenaView() = default;
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
  virtual ~Arena() = default;
  /// At least `size` bytes; null if there is no room.
  virtual std::shared_ptr<const ArenaSlot> take(size_t size) = 0;
  /// A part that the peer says that it took. Errors: Protocol, LimitExceeded.
  virtual Expected<std::shared_ptr<ArenaView>> view(uint64_t offset, uint64_t capacity) const = 0;
};

/// The directions to wait for, and, afterwards, those that may go on.
struct Readiness {
  bool read = false;
  bool write = false;
};

/// Channel::read or Channel::write by a system call, which `what` names. `zeroIsEnd`: of a call
/// that reads.
template <typename Call> Expected<size_t> transfer(const char *what, bool zeroIsEnd, Call call) {
  while (true) {
    const ssize_t n = call();
    if (n > 0 || (n == 0 && !zeroIsEnd))
      return static_cast<size_t>(n);
    if (n < 0 && errno == EAGAIN)
      return size_t(0);
    if (n == 0 || errno == EPIPE)
      return Status(Code::Closed, "the peer closed the connection");
    if (errno != EINTR)
      return Status(Code::Closed, describeErrno(what, errno));
  }
}

/// One end of a byte stream. One reader and one writer at a time.
class Channel {
public:
  virtual ~Channel() = default;
  /// At least one byte, or 0 if it would block. Errors: Closed (end of file, or the peer is gone).
  virtual Expected<size_t> read(uint8_t *to, size_t size) = 0;
  /// The number of bytes taken, or 0 if it would block. Never raises SIGPIPE. Errors: Closed.
  virtual Expected<size_t> write(const iovec *parts, int count) = 0;
  /// For poll: readable, or hung up, when read may go on.
  virtual int readDescriptor() const = 0;
  /// For poll: has `writeEvents`, or is broken, when write may go on. May be the same descriptor,
  /// if the events differ from POLLIN.
  virtual int writeDescriptor() const = 0;
  virtual short writeEvents() const { return POLLOUT; }
  /// A further descriptor whose error condition means that the peer is gone; -1 if the others tell.
  virtual int hangUpDescriptor() const { return -1; }

  /// True if the descriptors tell of input and room only to an end that said that it sleeps, so
  /// that a peer which is awake costs no system call.
  virtual bool isQuiet() const { return false; }
  /// The wanted directions that may go on, seen without a system call; unseen ones may.
  /// Reading is looked for by the reader, writing by the writer.
  virtual Readiness look(Readiness wanted) const { return wanted; }
  /// Before waiting on the descriptors of a quiet channel; holds until the next read or write.
  /// False if something of what is wanted may go on already: don't wait.
  virtual bool prepareToSleep(Readiness /*wanted*/) { return true; }
  /// The compiler's side: waits until one of the wanted things may go on (or the peer is gone,
  /// which reading tells). EINTR goes on waiting. Errors: DeadlineExceeded.
  virtual Expected<Readiness> wait(Readiness wanted, Deadline deadline);

  /// The likely mistake in the address, if the peer broke the protocol; empty if none is known.
  virtual const char *advice() const { return ""; }
  /// The address of the server that was reached, if the place stands for several.
  virtual std::string peer() const { return {}; }
  /// Null if there is none.
  virtual std::shared_ptr<Arena> arena() const { return nullptr; }
};

/// The model's side of an address.
class Listener {
public:
  virtual ~Listener() = default;
  /// Null if nobody is waiting.
  virtual Expected<std::unique_ptr<Channel>> accept() = 0;
  /// Readable when accept may have something.
  virtual int descriptor() const = 0;
  /// The place where it listens in the end; empty if that is what the URI says.
  virtual std::string place() const { return {}; }

  /// True if input and output go on only while somebody drives them, whatever the descriptors say.
  virtual bool isDriven() const { return false; }
  /// Works until the deadline, until something has happened that the descriptors tell, or until it
  /// is interrupted. Several threads may.
  virtual void drive(Deadline) {}
  /// Makes a drive that is under way, or else the next one, return at once. Any thread.
  virtual void interrupt() {}
  /// Refuses new connections from now on, where the transport can say that others should be asked.
  virtual void drain() {}
};

/// Calls methods of one server that knows nothing of MLBridge.
class Caller {
public:
  virtual ~Caller() = default;
  /// `method` as the service names it; the whole reply replaces what is in `reply`. Thread-safe.
  /// Errors: those of mlb_transport::call.
  virtual Status call(const std::string &method, Span<const uint8_t> request, Deadline deadline,
                      Buffer &reply) = 0;
};

class Transport {
public:
  virtual ~Transport() = default;
  /// Errors: Unavailable at once if nobody is there, Busy, DeadlineExceeded, InvalidArgument.
  virtual Expected<std::unique_ptr<Channel>> connect(const Uri &uri, Deadline deadline) const = 0;
  /// Errors: Busy (another server), InvalidArgument.
  virtual Expected<std::unique_ptr<Listener>> listen(const Uri &uri) const = 0;
  /// For a URI with the option `call`. Errors: those of connect, and Unsupported.
  virtual Expected<std::unique_ptr<Caller>> caller(const Uri &uri, Deadline deadline) const;
  /// True if a handshake that got no answer may have met the remains of an earlier conversation, so
  /// that connecting once more makes sense.
  virtual bool mayBeStale() const { return false; }
  /// The options of a URI that this transport understands itself.
  virtual bool understands(std::string_view) const { return false; }
  /// The most servers that the place stands for. Each call of connect reaches the next one.
  virtual uint32_t servers(const Uri &) const { return 1; }
  /// The same after looking up what is a guess otherwise, for at most so long.
  virtual uint32_t countServers(const Uri &uri, Deadline) const { return servers(uri); }
};

/// "pipe", "shm" and "unix" are built in; others are components libmlbridge-transport-SCHEME.so.
/// Lives for ever.
Expected<const Transport *> transportFor(std::string_view scheme);

} // namespace mlbridge

#endif
