// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "transport/pipe/fifo.h"

#include <cerrno>
#include <csignal>
#include <ctime>
#include <fcntl.h>
#include <poll.h>
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

} // namespace mlbridge
