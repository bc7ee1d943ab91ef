// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "transport/grpc/acceptor.h"

#include "transport/grpc/library.h"

#include <cerrno>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <system_error>
#include <unistd.h>

namespace mlbridge::grpctransport {

namespace {

// How long it waits for descriptors to become free.
constexpr int PauseMs = 100;

struct Free {
  void operator()(addrinfo *info) const { ::freeaddrinfo(info); }
};

uint16_t portOf(int socket) {
  sockaddr_storage address{};
  socklen_t size = sizeof address;
  if (::getsockname(socket, reinterpret_cast<sockaddr *>(&address), &size) != 0)
    return 0;
  return ntohs(address.ss_family == AF_INET6
                   ? reinterpret_cast<const sockaddr_in6 *>(&address)->sin6_port
                   : reinterpret_cast<const sockaddr_in *>(&address)->sin_port);
}

} // namespace

Status Acceptor::listen(const Settings &settings) {
  const std::string where = "listen at " + placeOf(settings, settings.port);
  addrinfo wanted{};
  wanted.ai_socktype = SOCK_STREAM;
  wanted.ai_flags = AI_PASSIVE | AI_NUMERICSERV;
  addrinfo *found = nullptr;
  const std::string port = std::to_string(settings.port);
  if (const int error = ::getaddrinfo(settings.host.c_str(), port.c_str(), &wanted, &found))
    return Status(Code::InvalidArgument, where + ": " + ::gai_strerror(error));
  const std::unique_ptr<addrinfo, Free> info(found);
  socket_ = Descriptor(
      ::socket(info->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, info->ai_protocol));
  quit_ = Descriptor(::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC));
  if (!socket_ || !quit_)
    return Status(Code::LimitExceeded, describeErrno(where, errno));
  const int one = 1, zero = 0;
  ::setsockopt(socket_.get(), SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
  ::setsockopt(socket_.get(), IPPROTO_TCP, TCP_NODELAY, &one,
               sizeof one); // connections have it too
  if (info->ai_family == AF_INET6)
    ::setsockopt(socket_.get(), IPPROTO_IPV6, IPV6_V6ONLY, &zero, sizeof zero);
  if (::bind(socket_.get(), info->ai_addr, info->ai_addrlen) != 0 ||
      ::listen(socket_.get(), SOMAXCONN) != 0) {
    if (errno == EADDRINUSE)
      return Status(Code::Busy, where + ": another server is there");
    return Status(Code::InvalidArgument, describeErrno(where, errno));
  }
  port_ = portOf(socket_.get());
  return Status();
}

Status Acceptor::start(std::unique_ptr<Taker> taker) {
  taker_ = std::move(taker);
  const NoSignals guard;
  try {
    thread_ = std::thread([this] { run(); });
  } catch (const std::system_error &error) {
    return Status(Code::LimitExceeded, describeErrno("start a thread", error.code().value()));
  }
  return Status();
}

void Acceptor::stop() {
  if (thread_.joinable()) {
    const uint64_t one = 1;
    (void)!::write(quit_.get(), &one, sizeof one);
    thread_.join();
  }
  socket_ = Descriptor();
}

bool Acceptor::acceptOne(bool &isExhausted) {
  Descriptor connection(::accept4(socket_.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
  if (!connection) {
    isExhausted = errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM;
    return errno == EINTR || errno == ECONNABORTED;
  }
  Taker::NewConnectionParameters parameters;
  parameters.listener_fd = socket_.get();
  parameters.fd = connection.release();
  taker_->HandleNewConnection(&parameters);
  return true;
}

void Acceptor::run() {
  pollfd watched[2] = {{quit_.get(), POLLIN, 0}, {socket_.get(), POLLIN, 0}};
  bool isExhausted = false;
  while (true) {
    // Who waits to be accepted would wake it again and again.
    ::poll(watched, isExhausted ? 1 : 2, isExhausted ? PauseMs : -1);
    if (watched[0].revents)
      return;
    isExhausted = false;
    while (acceptOne(isExhausted)) {
    }
  }
}

} // namespace mlbridge::grpctransport
