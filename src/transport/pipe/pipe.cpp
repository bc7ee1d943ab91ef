// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// pipe:BASE, a pair of FIFOs for one compiler process at a time: BASE.in goes to the compiler,
// BASE.out comes from it. The server makes both (mode 0600) and always has BASE.out open for
// reading; the compiler opens BASE.in, then BASE.out, and neither open can block. A lock on BASE.in
// keeps a second compiler out, one on BASE.out a second server.
#include "transport/pipe/fifo.h"

#include <cerrno>
#include <csignal>
#include <ctime>
#include <fcntl.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

namespace mlbridge {

namespace {

constexpr int BufferSize = 1 << 20; // the kernel's default limit for an unprivileged pipe
constexpr int FlagNoSignal = 0x100; // RWF_NOSIGNAL of linux/fs.h

/// A write to a FIFO that nobody reads raises SIGPIPE, and there is no flag against it. It is
/// blocked for this thread and, if this write raised it, taken off before it is unblocked.
class NoSigPipe {
public:
  NoSigPipe() {
    sigemptyset(&pipe_);
    sigaddset(&pipe_, SIGPIPE);
    pthread_sigmask(SIG_BLOCK, &pipe_, &before_);
  }
  void raised() { raised_ = true; }
  ~NoSigPipe() {
    const int error = errno;
    if (sigismember(&before_, SIGPIPE))
      return;
    if (raised_) {
      const timespec now{0, 0};
      while (sigtimedwait(&pipe_, nullptr, &now) < 0 && errno == EINTR) {
      }
    }
    pthread_sigmask(SIG_SETMASK, &before_, nullptr);
    errno = error;
  }

private:
  sigset_t pipe_, before_;
  bool raised_ = false;
};

} // namespace

Expected<Descriptor> openFifo(const std::string &path, int mode) {
  Descriptor fifo(::open(path.c_str(), mode | O_NONBLOCK | O_CLOEXEC));
  if (!fifo) {
    const int error = errno;
    if (error == ENOENT)
      return Status(Code::Unavailable, "pipe: no server there (no such FIFO)");
    if (error == ENXIO)
      return Status(Code::Unavailable, "pipe: no server there (nobody reads the FIFO)");
    return Status(Code::InvalidArgument, describeErrno("pipe: open " + path, error));
  }
  struct stat info{};
  if (::fstat(fifo.get(), &info) != 0 || !S_ISFIFO(info.st_mode))
    return Status(Code::InvalidArgument, "pipe: " + path + " is not a FIFO");
  return fifo;
}

Status makeFifo(const std::string &path) {
  if (::mkfifo(path.c_str(), 0600) == 0)
    return Status();
  if (errno != EEXIST)
    return Status(Code::InvalidArgument, describeErrno("pipe: make " + path, errno));
  struct stat info{};
  if (::lstat(path.c_str(), &info) != 0 || !S_ISFIFO(info.st_mode))
    return Status(Code::InvalidArgument, "pipe: " + path + " is not a FIFO");
  return Status();
}

bool isStillAt(const std::string &path, int fifo) {
  struct stat opened{}, named{};
  return ::fstat(fifo, &opened) == 0 && ::stat(path.c_str(), &named) == 0 &&
         opened.st_dev == named.st_dev && opened.st_ino == named.st_ino;
}

// By its flag where the kernel has it (Linux 6.18), otherwise guarded.
ssize_t writeQuietly(int fifo, const iovec *parts, int count, bool &kernelHasFlag) {
  if (kernelHasFlag) {
    const ssize_t n = ::pwritev2(fifo, parts, count, -1, FlagNoSignal);
    if (n >= 0 || (errno != EOPNOTSUPP && errno != EINVAL && errno != ENOSYS))
      return n;
    kernelHasFlag = false;
  }
  NoSigPipe guard;
  const ssize_t n = ::writev(fifo, parts, count);
  if (n < 0 && errno == EPIPE)
    guard.raised();
  return n;
}

PipeChannel::PipeChannel(Descriptor in, Descriptor out) : in_(std::move(in)), out_(std::move(out)) {
  ::fcntl(out_.get(), F_SETPIPE_SZ, BufferSize);
  ::fcntl(in_.get(), F_SETPIPE_SZ, BufferSize);
}

Expected<size_t> PipeChannel::read(uint8_t *to, size_t size) {
  if (!sawData_) {
    pollfd fds[2] = {{in_.get(), POLLIN, 0}, {witness(), 0, 0}};
    const int n = ::poll(fds, 2, 0);
    if (n > 0 && fds[1].revents & POLLERR && !(fds[0].revents & POLLIN))
      return Status(Code::Closed, "the peer closed the FIFO");
    if (n <= 0 || !fds[0].revents)
      return size_t(0);
  }
  while (true) {
    const ssize_t n = ::read(in_.get(), to, size);
    if (n > 0) {
      if (!sawData_)
        met();
      sawData_ = true;
      return static_cast<size_t>(n);
    }
    if (n == 0)
      return Status(Code::Closed, "the peer closed the FIFO");
    if (errno == EAGAIN)
      return size_t(0);
    if (errno != EINTR)
      return Status(Code::Closed, describeErrno("read from the FIFO", errno));
  }
}

Expected<size_t> PipeChannel::write(const iovec *parts, int count) {
  while (true) {
    const ssize_t n = writeQuietly(out_.get(), parts, count, kernelHasFlag_);
    if (n >= 0)
      return static_cast<size_t>(n);
    if (errno == EAGAIN)
      return size_t(0);
    if (errno == EPIPE)
      return Status(Code::Closed, "the peer closed the FIFO");
    if (errno != EINTR)
      return Status(Code::Closed, describeErrno("write to the FIFO", errno));
  }
}

namespace {

std::string inPath(const std::string &base) { return base + ".in"; }
std::string outPath(const std::string &base) { return base + ".out"; }

/// The server's side keeps one read end of BASE.out open at all times, so that a compiler always
/// finds a reader. While a conversation lasts that end belongs to its channel; a fresh one is
/// opened before the old one is closed, because only a fresh one forgets the hang-up of the last
/// writer.
class PipeListener final : public Listener {
public:
  static Expected<std::unique_ptr<Listener>> make(const std::string &base) {
    if (base.empty())
      return Status(Code::InvalidArgument,
                    "pipe: the URI names no FIFOs; expected pipe:BASE or pipe:FOLDER/");
    std::unique_ptr<PipeListener> self(new PipeListener(base));
    for (const std::string &path : {inPath(base), outPath(base)})
      if (Status s = makeFifo(path); !s)
        return s;
    Expected<Descriptor> out = openFifo(outPath(base), O_RDONLY);
    if (!out)
      return out.status();
    self->lock_ = Descriptor(::open(outPath(base).c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
    if (::flock(self->lock_.get(), LOCK_EX | LOCK_NB) != 0)
      return Status(Code::Busy, "pipe: another server is at " + base);
    // A server that was just ending may have removed what was opened here.
    for (const int fd : {out->get(), self->lock_.get()})
      if (!isStillAt(outPath(base), fd))
        return Status(Code::Busy, "pipe: another server is just leaving " + base);
    if (Status s = makeFifo(inPath(base)); !s)
      return s;
    self->owns_ = true;
    for (const std::string &path : {inPath(base), outPath(base)})
      if (::chmod(path.c_str(), 0600) != 0)
        return Status(Code::InvalidArgument, describeErrno("pipe: set the mode of " + path, errno));
    self->epoll_ = Descriptor(::epoll_create1(EPOLL_CLOEXEC));
    if (!self->epoll_)
      return Status(Code::Unavailable, describeErrno("pipe: make an epoll set", errno));
    self->await(std::move(*out));
    return std::unique_ptr<Listener>(std::move(self));
  }

  ~PipeListener() override {
    if (owns_) {
      ::unlink(inPath(base_).c_str());
      ::unlink(outPath(base_).c_str());
    }
  }

  Expected<std::unique_ptr<Channel>> accept() override;
  int descriptor() const override { return epoll_.get(); }
  void conversationEnded() {
    if (Expected<Descriptor> fresh = openFifo(outPath(base_), O_RDONLY))
      await(std::move(*fresh));
  }

private:
  explicit PipeListener(std::string base) : base_(std::move(base)) {}
  void await(Descriptor out) {
    epoll_event event{};
    event.events = EPOLLIN;
    ::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, out.get(), &event);
    waiting_ = std::move(out);
  }

  std::string base_;
  Descriptor lock_, epoll_, waiting_;
  bool owns_ = false;
  // Tells the channel whether the listener is still there.
  std::shared_ptr<PipeListener *> self_ = std::make_shared<PipeListener *>(this);

  friend class ServerPipeChannel;
};

class ServerPipeChannel final : public PipeChannel {
public:
  ServerPipeChannel(Descriptor in, Descriptor out, std::weak_ptr<PipeListener *> listener)
      : PipeChannel(std::move(in), std::move(out)), listener_(std::move(listener)) {}
  ~ServerPipeChannel() override {
    // Our write end goes first: a compiler that is already there again learns that the old
    // conversation is over.
    out_.reset();
    if (const std::shared_ptr<PipeListener *> listener = listener_.lock())
      (*listener)->conversationEnded();
  }

private:
  std::weak_ptr<PipeListener *> listener_;
};

Expected<std::unique_ptr<Channel>> PipeListener::accept() {
  if (!waiting_)
    return std::unique_ptr<Channel>();
  pollfd fd{waiting_.get(), POLLIN, 0};
  if (::poll(&fd, 1, 0) <= 0)
    return std::unique_ptr<Channel>();
  if (fd.revents & POLLIN) {
    Expected<Descriptor> in = openFifo(inPath(base_), O_WRONLY);
    if (in) {
      ::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, waiting_.get(), nullptr);
      return std::unique_ptr<Channel>(
          new ServerPipeChannel(std::move(waiting_), std::move(*in), self_));
    }
  }
  // Somebody wrote and went away, or came and went away: forget it.
  uint8_t waste[4096];
  while (::read(waiting_.get(), waste, sizeof waste) > 0) {
  }
  Expected<Descriptor> fresh = openFifo(outPath(base_), O_RDONLY);
  if (!fresh)
    return Status(Code::Unavailable, fresh.status().message());
  ::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, waiting_.get(), nullptr);
  await(std::move(*fresh));
  return std::unique_ptr<Channel>();
}

class PipeTransport final : public Transport {
public:
  Expected<std::unique_ptr<Channel>> connect(const Uri &uri, Deadline) const override {
    const std::string &base = uri.place;
    if (base.empty())
      return Status(Code::InvalidArgument,
                    "pipe: the URI names no FIFOs; expected pipe:BASE or pipe:FOLDER/");
    if (base.back() == '/')
      return connectAtRendezvous(base);
    Expected<Descriptor> in = openFifo(inPath(base), O_RDONLY);
    if (!in)
      return in.status();
    if (::flock(in->get(), LOCK_EX | LOCK_NB) != 0)
      return Status(Code::Busy, "pipe: " + base +
                                    " serves another compiler; a server at pipe:FOLDER/ or "
                                    "unix:PATH serves many at once");
    Expected<Descriptor> out = openFifo(outPath(base), O_WRONLY);
    if (!out)
      return out.status();
    return std::unique_ptr<Channel>(new PipeChannel(std::move(*in), std::move(*out)));
  }
  Expected<std::unique_ptr<Listener>> listen(const Uri &uri) const override {
    if (!uri.place.empty() && uri.place.back() == '/')
      return listenAtRendezvous(uri.place);
    return PipeListener::make(uri.place);
  }
  bool mayBeStale() const override { return true; }
};

} // namespace

const Transport &pipeTransport() {
  static const PipeTransport transport;
  return transport;
}

} // namespace mlbridge
