// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// pipe:FOLDER/, any number of compilers behind one server. The server reads FOLDER/rendezvous; a
// compiler makes a pair of FIFOs of its own in the folder, as pipe:BASE has them, and announces
// their name there in one line, which is one write. Once the server has opened both it removes
// their names, so that nothing is left whoever dies.
#include "transport/pipe/fifo.h"

#include <cerrno>
#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

namespace mlbridge {

namespace {

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

void removePair(const std::string &base) {
  ::unlink((base + ".in").c_str());
  ::unlink((base + ".out").c_str());
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

class Rendezvous final : public Listener {
public:
  static Expected<std::unique_ptr<Listener>> make(const std::string &folder) {
    std::unique_ptr<Rendezvous> self(new Rendezvous(folder));
    if (::mkdir(folder.c_str(), 0700) == 0)
      self->madeFolder_ = true;
    else if (errno != EEXIST)
      return Status(Code::InvalidArgument, describeErrno("pipe: make the folder " + folder, errno));
    const std::string path = rendezvousPath(folder);
    if (Status s = makeFifo(path); !s)
      return s;
    Expected<Descriptor> reader = openFifo(path, O_RDONLY);
    if (!reader)
      return reader.status();
    if (::flock(reader->get(), LOCK_EX | LOCK_NB) != 0)
      return Status(Code::Busy, "pipe: another server is at " + folder);
    // A server that was just ending may have removed the FIFO that was opened here.
    if (!isStillAt(path, reader->get()))
      return Status(Code::Busy, "pipe: another server is just leaving " + folder);
    self->owns_ = true;
    if (::fchmod(reader->get(), 0600) != 0)
      return Status(Code::InvalidArgument, describeErrno("pipe: set the mode of " + path, errno));
    // With a writer of its own the FIFO never reads as ended.
    Expected<Descriptor> keeper = openFifo(path, O_WRONLY);
    if (!keeper)
      return keeper.status();
    self->reader_ = std::move(*reader);
    self->keeper_ = std::move(*keeper);
    self->sweep();
    return std::unique_ptr<Listener>(std::move(self));
  }

  ~Rendezvous() override {
    if (owns_)
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
      text_.erase(0, end + 1);
      const size_t at = line.rfind(Greeting);
      if (at == std::string::npos || !isName(line.substr(at + sizeof Greeting - 1)))
        continue;
      const std::string base = folder_ + line.substr(at + sizeof Greeting - 1);
      // Reading first: the compiler may be gone by the time that its other FIFO is opened.
      Expected<Descriptor> out = openFifo(base + ".out", O_RDONLY | O_NOFOLLOW);
      Expected<Descriptor> in = openFifo(base + ".in", O_WRONLY | O_NOFOLLOW);
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
      const Expected<Descriptor> in = openFifo(folder_ + name + ".in", O_WRONLY | O_NOFOLLOW);
      if (!in)
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
    return Status(Code::Internal, "no random numbers");
  char digits[17];
  for (int i = 0; i < 16; ++i)
    digits[i] = "0123456789abcdef"[random >> (4 * i) & 15];
  digits[16] = 0;
  return std::string(NamePrefix) + std::to_string(::getpid()) + "-" + digits;
}

} // namespace

Expected<std::unique_ptr<Listener>> listenAtRendezvous(const std::string &folder) {
  return Rendezvous::make(folder);
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
  for (const char *end : {".in", ".out"})
    if (Status s = makeFifo(base + end); !s)
      return give(s);
  Expected<Descriptor> in = openFifo(base + ".in", O_RDONLY);
  Expected<Descriptor> keeper = openFifo(base + ".out", O_RDONLY);
  if (!in || !keeper)
    return give(in ? keeper.status() : in.status());
  Expected<Descriptor> out = openFifo(base + ".out", O_WRONLY);
  if (!out)
    return give(out.status());
  std::string line = Greeting + *name + "\n";
  const iovec part{line.data(), line.size()};
  bool kernelHasFlag = true;
  if (writeQuietly(rendezvous->get(), &part, 1, kernelHasFlag) != ssize_t(line.size()))
    return give(errno == EPIPE
                    ? Status(Code::Unavailable, "pipe: " + folder + ": the server has just gone")
                    : Status(Code::Busy, "pipe: " + folder + ": too many compilers at its door"));
  return std::unique_ptr<Channel>(new GuestChannel(
      std::move(*in), std::move(*out), std::move(*keeper), std::move(*rendezvous), base));
}

} // namespace mlbridge
