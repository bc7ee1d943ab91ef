// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// pipe:BASE, a pair of FIFOs for one compiler process at a time: BASE.in goes to the compiler,
// BASE.out comes from it. The server makes both (mode 0600) and always has BASE.out open for
// reading; the compiler opens BASE.in, then BASE.out, and neither open can block. A lock on BASE.in
// keeps a second compiler out, one on BASE.out a second server.
#include "core/message.h"
#include "transport/builtin.h"
#include "transport/owner.h"
#include "transport/pipe/fifo.h"

#include <cerrno>
#include <csignal>
#include <ctime>
#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/file.h>
#include <sys/random.h>
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

constexpr mode_t OfOthers = 077;

/// Opens one FIFO without blocking. `mode`: O_RDONLY or O_WRONLY. Errors: Unavailable (nobody is at
/// the other end, or no such file), LimitExceeded (no descriptor is left), InvalidArgument (also if
/// other users have a part in it).
Expected<Descriptor> openFifo(const std::string &path, int mode) {
  Descriptor fifo(::open(path.c_str(), mode | O_NONBLOCK | O_CLOEXEC | O_NOFOLLOW));
  if (!fifo) {
    const int error = errno;
    if (error == ENOENT)
      return makeError(Code::Unavailable, "pipe: no server there (no such FIFO)");
    if (error == ENXIO)
      return makeError(Code::Unavailable, "pipe: no server there (nobody reads the FIFO)");
    if (error == ELOOP)
      return makeError(Code::InvalidArgument, "pipe: ", path, " is a symbolic link, not a FIFO");
    return Status(error == EMFILE || error == ENFILE ? Code::LimitExceeded : Code::InvalidArgument,
                  describeErrno("pipe: open " + path, error));
  }
  struct stat info{};
  if (::fstat(fifo.get(), &info) != 0 || !S_ISFIFO(info.st_mode))
    return makeError(Code::InvalidArgument, "pipe: ", path, " is not a FIFO");
  if (!isTrusted(info.st_uid))
    return ofAnotherUser("pipe: " + path, info.st_uid);
  if (info.st_mode & OfOthers)
    return makeError(Code::InvalidArgument, "pipe: ", path,
                     " can be used by other users: a FIFO must have mode "
                     "0600");
  return fifo;
}

/// Ok if nothing is there, or a FIFO of this user.
Status mayBeTaken(const std::string &path) {
  struct stat info{};
  if (::lstat(path.c_str(), &info) != 0)
    return Status();
  if (!S_ISFIFO(info.st_mode))
    return makeError(Code::InvalidArgument, "pipe: ", path, " is not a FIFO");
  return info.st_uid == ::geteuid() ? Status() : ofAnotherUser("pipe: " + path, info.st_uid);
}

/// Makes one for its owner alone; Ok if it is there already and is this user's. One to which others
/// had access is made anew, as they may have it open.
Status makeFifo(const std::string &path) {
  for (int attempt = 0; attempt < 3; ++attempt) {
    if (::mkfifo(path.c_str(), 0600) == 0)
      return Status();
    if (errno != EEXIST)
      return Status(Code::InvalidArgument, describeErrno("pipe: make " + path, errno));
    if (Status s = mayBeTaken(path); !s)
      return s;
    struct stat info{};
    if (::lstat(path.c_str(), &info) != 0)
      continue;
    if (!(info.st_mode & OfOthers))
      return Status();
    ::unlink(path.c_str());
  }
  return makeError(Code::Busy, "pipe: ", path, " is being made by another process; try again");
}

/// Makes the FIFO for a server at `base` and opens it for reading, with the lock that keeps a
/// second server out. Errors: Busy, InvalidArgument.
Expected<Descriptor> takeFifo(const std::string &path, const std::string &base) {
  if (Status s = makeFifo(path); !s)
    return s;
  Expected<Descriptor> reader = openFifo(path, O_RDONLY);
  if (!reader)
    return reader;
  if (::flock(reader->get(), LOCK_EX | LOCK_NB) != 0)
    return makeError(Code::Busy, "pipe: another server is at ", base);
  // A server that was just ending may have removed what was opened here.
  if (!isStillAt(path, reader->get()))
    return makeError(Code::Busy, "pipe: another server is just shutting down at ", base,
                     "; try again");
  return reader;
}

/// Removes a FIFO of this user's; nothing else, whatever has the name by now.
void removeFifo(const std::string &path) {
  struct stat info{};
  if (::lstat(path.c_str(), &info) == 0 && S_ISFIFO(info.st_mode) && info.st_uid == ::geteuid())
    ::unlink(path.c_str());
}

/// writev that raises no SIGPIPE: by its flag where the kernel has it (Linux 6.18), otherwise
/// guarded. `kernelHasFlag`: true at first; remembers what the kernel can do.
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

} // namespace

bool isStillAt(const std::string &path, int fifo) {
  struct stat opened{}, named{};
  return ::fstat(fifo, &opened) == 0 && ::lstat(path.c_str(), &named) == 0 &&
         isSameFile(opened, named);
}

PipeChannel::PipeChannel(Descriptor in, Descriptor out) : in_(std::move(in)), out_(std::move(out)) {
  ::fcntl(out_.get(), F_SETPIPE_SZ, BufferSize);
  ::fcntl(in_.get(), F_SETPIPE_SZ, BufferSize);
}

Expected<size_t> PipeChannel::read(uint8_t *to, size_t size) {
  if (!sawData_) {
    // The witness is asked first: what a peer wrote before it left is then seen.
    pollfd fds[2] = {{witness(), 0, 0}, {in_.get(), POLLIN, 0}};
    const int n = ::poll(fds, 2, 0);
    if (n > 0 && fds[0].revents & POLLERR && !(fds[1].revents & POLLIN))
      return makeError(Code::Closed, "the peer closed the connection");
    if (n <= 0 || !fds[1].revents)
      return size_t(0);
  }
  Expected<size_t> n =
      transfer("read from the FIFO", true, [&] { return ::read(in_.get(), to, size); });
  if (n && *n && !sawData_) {
    met();
    sawData_ = true;
  }
  return n;
}

Expected<size_t> PipeChannel::write(const iovec *parts, int count) {
  return transfer("write to the FIFO", false,
                  [&] { return writeQuietly(out_.get(), parts, count, kernelHasFlag_); });
}

namespace {

std::string inPath(const std::string &base) { return base + ".in"; }
std::string outPath(const std::string &base) { return base + ".out"; }

/// Removes what is a FIFO; other files of these names are somebody else's.
void removePair(const std::string &base) {
  removeFifo(inPath(base));
  removeFifo(outPath(base));
}

/// The server's side keeps one read end of BASE.out open at all times, so that a compiler always
/// finds a reader. While a conversation lasts that end belongs to its channel; a fresh one is
/// opened before the old one is closed, because only a fresh one forgets the hang-up of the last
/// writer.
class PipeListener final : public Listener {
public:
  static Expected<std::unique_ptr<Listener>> make(const std::string &base) {
    if (base.empty())
      return makeError(Code::InvalidArgument,
                       "pipe: the URI names no FIFOs; expected pipe:BASE or pipe:FOLDER/");
    std::unique_ptr<PipeListener> self(new PipeListener(base));
    if (Status s = mayBeTaken(outPath(base)); !s)
      return s;
    if (Status s = makeFifo(inPath(base)); !s)
      return s;
    Expected<Descriptor> lock = takeFifo(outPath(base), base);
    if (!lock)
      return lock.status();
    self->lock_ = std::move(*lock);
    if (Status s = makeFifo(inPath(base)); !s) // the last server may have removed it
      return s;
    if (::lstat(inPath(base).c_str(), &self->in_) != 0)
      return makeError(Code::Busy, "pipe: ", inPath(base), " was just removed; try again");
    self->owns_ = true;
    Expected<Descriptor> out = openFifo(outPath(base), O_RDONLY);
    if (!out)
      return out.status();
    self->epoll_ = Descriptor(::epoll_create1(EPOLL_CLOEXEC));
    if (!self->epoll_)
      return Status(Code::Unavailable, describeErrno("pipe: make an epoll set", errno));
    self->await(std::move(*out));
    return std::unique_ptr<Listener>(std::move(self));
  }

  ~PipeListener() override {
    struct stat info{};
    if (owns_ && ::lstat(inPath(base_).c_str(), &info) == 0 && isSameFile(info, in_))
      ::unlink(inPath(base_).c_str());
    if (owns_ && isStillAt(outPath(base_), lock_.get()))
      ::unlink(outPath(base_).c_str());
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
  struct stat in_{};
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
    if (in.status().code() == Code::LimitExceeded)
      return in.status(); // the compiler is accepted once there are descriptors
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

// ---- pipe:FOLDER/ -------------------------------------------------------------------------------

// Any number of compilers behind one server. The server reads FOLDER/rendezvous; a compiler makes a
// pair of FIFOs of its own in the folder, as pipe:BASE has them, and announces their name there in
// one line, which is one write. Once the server has opened both it removes their names, so that
// nothing is left whoever dies.

constexpr char Greeting[] = "mlbridge-pipe 1 ";
constexpr size_t MaxName = 64;
constexpr size_t MaxLine = sizeof Greeting + MaxName;
constexpr int MaxReads = 16;
constexpr char NamePrefix[] = "compiler-";

std::string rendezvousPath(const std::string &folder) { return folder + "rendezvous"; }

/// A name, never a path.
bool isName(const std::string &text) {
  if (text.empty() || text.size() > MaxName || text.rfind(NamePrefix, 0) != 0)
    return false;
  for (const char c : text)
    if (!(c >= 'a' && c <= 'z') && !(c >= '0' && c <= '9') && c != '-')
      return false;
  return true;
}

/// The compiler's side. Until the server is heard of, a read end of its own keeps what it wrote,
/// and the rendezvous tells whether there is a server at all.
class GuestChannel final : public PipeChannel {
public:
  GuestChannel(Descriptor in, Descriptor out, Descriptor keeper, Descriptor rendezvous,
               std::string base)
      : PipeChannel(std::move(in), std::move(out)), keeper_(std::move(keeper)),
        rendezvous_(std::move(rendezvous)), base_(std::move(base)) {}
  ~GuestChannel() override {
    if (rendezvous_)
      removePair(base_);
  }

protected:
  int witness() const override { return rendezvous_.get(); }
  void met() override {
    keeper_.reset();
    rendezvous_.reset();
  }

private:
  Descriptor keeper_, rendezvous_;
  std::string base_;
};

/// In a folder of another user, or one that all may change, FIFOs could be exchanged at any time.
Status isSafe(const std::string &folder) {
  struct stat info{};
  if (::stat(folder.c_str(), &info) != 0)
    return Status(Code::InvalidArgument, describeErrno("pipe: look at " + folder, errno));
  if (!isTrusted(info.st_uid))
    return ofAnotherUser("pipe: the folder " + folder, info.st_uid);
  if (info.st_mode & S_IWOTH && !(info.st_mode & S_ISVTX))
    return makeError(Code::InvalidArgument, "pipe: every user may change the folder ", folder,
                     ": choose another one");
  return Status();
}

class Rendezvous final : public Listener {
public:
  static Expected<std::unique_ptr<Listener>> make(const std::string &folder) {
    std::unique_ptr<Rendezvous> self(new Rendezvous(folder));
    if (::mkdir(folder.c_str(), 0700) == 0)
      self->madeFolder_ = true;
    else if (errno != EEXIST)
      return Status(Code::InvalidArgument, describeErrno("pipe: make the folder " + folder, errno));
    if (Status s = isSafe(folder); !s)
      return s;
    const std::string path = rendezvousPath(folder);
    Expected<Descriptor> reader = takeFifo(path, folder);
    if (!reader)
      return reader.status();
    self->reader_ = std::move(*reader);
    self->owns_ = true;
    // With a writer of its own the FIFO never reads as ended.
    Expected<Descriptor> keeper = openFifo(path, O_WRONLY);
    if (!keeper)
      return keeper.status();
    self->keeper_ = std::move(*keeper);
    self->sweep();
    return std::unique_ptr<Listener>(std::move(self));
  }

  ~Rendezvous() override {
    if (owns_ && isStillAt(rendezvousPath(folder_), reader_.get()))
      ::unlink(rendezvousPath(folder_).c_str());
    if (madeFolder_)
      ::rmdir(folder_.c_str());
  }

  int descriptor() const override { return reader_.get(); }

  Expected<std::unique_ptr<Channel>> accept() override {
    for (int reads = 0;;) {
      const size_t end = text_.find('\n');
      if (end == std::string::npos) {
        if (++reads > MaxReads) // the others have their turn, then this goes on
          return std::unique_ptr<Channel>();
        if (text_.size() > MaxLine) // garbage: an announcement is shorter
          text_.erase(0, text_.size() - MaxLine);
        char more[4096];
        const ssize_t n = ::read(reader_.get(), more, sizeof more);
        if (n > 0)
          text_.append(more, static_cast<size_t>(n));
        else if (n == 0 || errno != EINTR)
          return std::unique_ptr<Channel>();
        continue;
      }
      const std::string line = text_.substr(0, end);
      const size_t at = line.rfind(Greeting);
      if (at == std::string::npos || !isName(line.substr(at + sizeof Greeting - 1))) {
        text_.erase(0, end + 1);
        continue;
      }
      const std::string base = folder_ + line.substr(at + sizeof Greeting - 1);
      // Reading first: the compiler may be gone by the time that its other FIFO is opened.
      Expected<Descriptor> out = openFifo(outPath(base), O_RDONLY);
      Expected<Descriptor> in = openFifo(inPath(base), O_WRONLY);
      for (const Expected<Descriptor> *fifo : {&out, &in})
        if (fifo->status().code() == Code::LimitExceeded)
          return fifo->status(); // the compiler is accepted once there are descriptors
      text_.erase(0, end + 1);
      removePair(base);
      if (out && in)
        return std::unique_ptr<Channel>(new PipeChannel(std::move(*out), std::move(*in)));
    }
  }

private:
  explicit Rendezvous(std::string folder) : folder_(std::move(folder)) {}

  /// Removes what compilers of an earlier server left: pairs whose `.in` nobody reads.
  void sweep() const {
    DIR *listing = ::opendir(folder_.c_str());
    if (!listing)
      return;
    while (const dirent *entry = ::readdir(listing)) {
      std::string name = entry->d_name;
      if (name.size() < 4 || name.compare(name.size() - 4, 4, ".out") != 0)
        continue;
      name.resize(name.size() - 4);
      if (!isName(name))
        continue;
      const Expected<Descriptor> in = openFifo(inPath(folder_ + name), O_WRONLY);
      // A failure for another reason, such as too few descriptors, doesn't say so.
      if (!in && in.status().code() == Code::Unavailable)
        removePair(folder_ + name);
    }
    ::closedir(listing);
  }

  std::string folder_;
  bool madeFolder_ = false;
  bool owns_ = false;
  Descriptor reader_, keeper_;
  std::string text_;
};

/// Another one for each connection of each process.
Expected<std::string> newName() {
  uint64_t random = 0;
  if (::getrandom(&random, sizeof random, 0) != ssize_t(sizeof random))
    return makeError(Code::Internal, "the system gives no random numbers (getrandom)");
  char digits[17];
  for (int i = 0; i < 16; ++i)
    digits[i] = "0123456789abcdef"[random >> (4 * i) & 15];
  digits[16] = 0;
  return std::string(NamePrefix) + std::to_string(::getpid()) + "-" + digits;
}

Expected<std::unique_ptr<Channel>> connectAtRendezvous(const std::string &folder) {
  Expected<Descriptor> rendezvous = openFifo(rendezvousPath(folder), O_WRONLY);
  if (!rendezvous)
    return rendezvous.status();
  Expected<std::string> name = newName();
  if (!name)
    return name.status();
  const std::string base = folder + *name;
  const auto give = [&](Status why) {
    removePair(base);
    return why;
  };
  for (const std::string &path : {inPath(base), outPath(base)})
    if (::mkfifo(path.c_str(), 0600) != 0)
      return give(Status(Code::InvalidArgument, describeErrno("pipe: make " + path, errno)));
  Expected<Descriptor> in = openFifo(inPath(base), O_RDONLY);
  Expected<Descriptor> keeper = openFifo(outPath(base), O_RDONLY);
  if (!in || !keeper)
    return give(in ? keeper.status() : in.status());
  Expected<Descriptor> out = openFifo(outPath(base), O_WRONLY);
  if (!out)
    return give(out.status());
  std::string line = Greeting + *name + "\n";
  const iovec part{line.data(), line.size()};
  bool kernelHasFlag = true;
  if (writeQuietly(rendezvous->get(), &part, 1, kernelHasFlag) != ssize_t(line.size()))
    return give(errno == EPIPE
                    ? makeError(Code::Unavailable, "pipe: ", folder, ": the server has just gone")
                    : makeError(Code::Busy, "pipe: ", folder,
                                ": too many compilers are connecting; try again"));
  return std::unique_ptr<Channel>(new GuestChannel(
      std::move(*in), std::move(*out), std::move(*keeper), std::move(*rendezvous), base));
}

class PipeTransport final : public Transport {
public:
  Expected<std::unique_ptr<Channel>> connect(const Uri &uri, Deadline) const override {
    const std::string &base = uri.place;
    if (base.empty())
      return makeError(Code::InvalidArgument,
                       "pipe: the URI names no FIFOs; expected pipe:BASE or pipe:FOLDER/");
    if (base.back() == '/')
      return connectAtRendezvous(base);
    Expected<Descriptor> in = openFifo(inPath(base), O_RDONLY);
    if (!in)
      return in.status();
    if (::flock(in->get(), LOCK_EX | LOCK_NB) != 0)
      return makeError(Code::Busy, "pipe: ", base,
                       " serves another compiler; a server at pipe:FOLDER/ or "
                       "unix:PATH serves many at once");
    Expected<Descriptor> out = openFifo(outPath(base), O_WRONLY);
    if (!out)
      return out.status();
    return std::unique_ptr<Channel>(new PipeChannel(std::move(*in), std::move(*out)));
  }
  Expected<std::unique_ptr<Listener>> listen(const Uri &uri) const override {
    if (!uri.place.empty() && uri.place.back() == '/')
      return Rendezvous::make(uri.place);
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
