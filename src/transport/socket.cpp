// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "transport/socket.h"

#include "core/message.h"
#include "transport/owner.h"

#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <poll.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

namespace mlbridge {

namespace {

constexpr int BufferSize = 1 << 20; // the kernel takes less where it must
constexpr int Backlog = 128;

Expected<sockaddr_un> addressOf(const std::string &scheme, const std::string &path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  constexpr size_t Limit = sizeof address.sun_path - 1;
  if (path.empty())
    return makeError(Code::InvalidArgument, scheme, ": the URI names no socket; expected ", scheme,
                     ":PATH");
  if (path.size() > Limit)
    return makeError(Code::InvalidArgument, scheme, ": the socket path has ", path.size(),
                     " bytes, at most ", Limit, " are possible: ", path);
  std::memcpy(address.sun_path, path.data(), path.size());
  return address;
}

Expected<Descriptor> newSocket(const std::string &scheme) {
  Descriptor socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!socket)
    return Status(Code::Unavailable, describeErrno(scheme + ": make a socket", errno));
  ::setsockopt(socket.get(), SOL_SOCKET, SO_SNDBUF, &BufferSize, sizeof BufferSize);
  return socket;
}

} // namespace

Expected<Descriptor> connectSocket(const std::string &scheme, const std::string &path,
                                   Deadline deadline) {
  Expected<sockaddr_un> address = addressOf(scheme, path);
  if (!address)
    return address.status();
  Expected<Descriptor> socket = newSocket(scheme);
  if (!socket)
    return socket.status();
  while (::connect(socket->get(), reinterpret_cast<const sockaddr *>(&*address), sizeof *address) !=
         0) {
    const int error = errno;
    const std::string &where = scheme; // who calls says the place
    switch (error) {
    case EINTR:
      continue;
    case EAGAIN: // the server's backlog is full, and poll does not tell when that ends
      if (deadline.hasPassed())
        return makeError(Code::DeadlineExceeded, where, ": the server did not accept in time");
      ::poll(nullptr, 0, 2);
      continue;
    case ENOENT:
      return makeError(Code::Unavailable, where, ": no server there (no such socket)");
    case ECONNREFUSED: {
      struct stat info{};
      if (::stat(path.c_str(), &info) == 0 && !S_ISSOCK(info.st_mode))
        return makeError(Code::InvalidArgument, where, ": this is not a socket");
      return makeError(Code::Unavailable, where, ": no server there (connection refused)");
    }
    default:
      return Status(error == EACCES || error == ENOTDIR ? Code::InvalidArgument : Code::Unavailable,
                    describeErrno(where, error));
    }
  }
  ucred peer{};
  socklen_t size = sizeof peer;
  if (::getsockopt(socket->get(), SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0)
    return Status(Code::Unavailable, describeErrno(scheme + ": ask who listens", errno));
  if (!isTrusted(peer.uid))
    return ofAnotherUser(scheme + ": the server there", peer.uid);
  return socket;
}

namespace {

/// True if the socket is one that nobody answers any more. A failure for another reason,
/// such as too few descriptors, doesn't say so.
bool isLeftBehind(const sockaddr_un &address) {
  const Descriptor socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  return socket &&
         ::connect(socket.get(), reinterpret_cast<const sockaddr *>(&address), sizeof address) !=
             0 &&
         errno == ECONNREFUSED;
}

/// One server at a time, of those that begin in a folder, checks for others and takes the place.
/// The lock is on the folder itself, so that nothing is left behind. None where there are no locks,
/// the folder can't be read, or a stranger keeps the lock.
Descriptor lockFolderOf(const std::string &path) {
  const size_t slash = path.rfind('/');
  const std::string folder = slash == std::string::npos ? "." : path.substr(0, slash + 1);
  Descriptor lock(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  const Deadline deadline = Deadline::after(std::chrono::seconds(5));
  while (lock && ::flock(lock.get(), LOCK_EX | LOCK_NB) != 0) {
    if ((errno != EWOULDBLOCK && errno != EINTR) || deadline.hasPassed())
      return Descriptor();
    ::poll(nullptr, 0, 2);
  }
  return lock;
}

/// A socket that listens; its file is gone when it is destroyed.
class SocketListener final : public Listener {
public:
  SocketListener(SocketTransport::NewChannel accepted, Descriptor socket, std::string path,
                 const struct stat &file)
      : accepted_(accepted), socket_(std::move(socket)), path_(std::move(path)), file_(file) {}
  ~SocketListener() override {
    struct stat info{};
    if (::lstat(path_.c_str(), &info) == 0 && isSameFile(info, file_))
      ::unlink(path_.c_str());
  }

  Expected<std::unique_ptr<Channel>> accept() override {
    while (true) {
      Descriptor socket(::accept4(socket_.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
      if (socket) {
        ::setsockopt(socket.get(), SOL_SOCKET, SO_SNDBUF, &BufferSize, sizeof BufferSize);
        return accepted_(std::move(socket));
      }
      if (errno == EAGAIN || errno == ECONNABORTED)
        return std::unique_ptr<Channel>();
      if (errno != EINTR)
        return Status(Code::LimitExceeded, describeErrno("accept at " + path_, errno));
    }
  }
  int descriptor() const override { return socket_.get(); }

private:
  const SocketTransport::NewChannel accepted_;
  const Descriptor socket_;
  const std::string path_;
  const struct stat file_;
};

} // namespace

Expected<size_t> readSocket(int socket, uint8_t *to, size_t size) {
  return transfer("read from the socket", true,
                  [&] { return ::recv(socket, to, size, MSG_DONTWAIT); });
}

Expected<size_t> writeSocket(int socket, const iovec *parts, int count) {
  constexpr int Flags = MSG_DONTWAIT | MSG_NOSIGNAL;
  if (count == 1) // takes the kernel less time
    return transfer("write to the socket", false,
                    [&] { return ::send(socket, parts->iov_base, parts->iov_len, Flags); });
  msghdr message{};
  message.msg_iov = const_cast<iovec *>(parts);
  message.msg_iovlen = static_cast<size_t>(count);
  return transfer("write to the socket", false, [&] { return ::sendmsg(socket, &message, Flags); });
}

Expected<std::unique_ptr<Channel>> SocketTransport::connect(const Uri &uri,
                                                            Deadline deadline) const {
  Expected<Descriptor> socket = connectSocket(scheme_, uri.place, deadline);
  if (!socket)
    return socket.status();
  return connected_(std::move(*socket));
}

Expected<std::unique_ptr<Listener>> SocketTransport::listen(const Uri &uri) const {
  const std::string &path = uri.place;
  Expected<sockaddr_un> address = addressOf(scheme_, path);
  if (!address)
    return address.status();
  const std::string where = scheme_ + ": listen at " + path;
  const Descriptor lock = lockFolderOf(path);
  struct stat info{};
  if (::lstat(path.c_str(), &info) == 0) {
    if (!S_ISSOCK(info.st_mode))
      return makeError(Code::InvalidArgument, where,
                       ": the path exists and is not a socket; remove it or choose another");
    if (info.st_uid != ::geteuid())
      return ofAnotherUser(where + ": the socket that is there", info.st_uid);
    if (!isLeftBehind(*address))
      return makeError(Code::Busy, where, ": another server is there");
    ::unlink(path.c_str());
  }
  Expected<Descriptor> socket = newSocket(scheme_);
  if (!socket)
    return socket.status();
  // On Linux the mode of the socket itself becomes that of the file that bind makes.
  ::fchmod(socket->get(), 0600);
  if (::bind(socket->get(), reinterpret_cast<const sockaddr *>(&*address), sizeof *address) != 0)
    return Status(errno == EADDRINUSE ? Code::Busy : Code::InvalidArgument,
                  describeErrno(where, errno));
  if (::lstat(path.c_str(), &info) != 0 || ::listen(socket->get(), Backlog) != 0)
    return Status(Code::Unavailable, describeErrno(where, errno));
  return std::unique_ptr<Listener>(new SocketListener(accepted_, std::move(*socket), path, info));
}

} // namespace mlbridge
