// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// shm:PATH, memory shared by two processes that meet at a socket in the file system.
#include "transport/shm/channel.h"
#include "transport/unix/socket.h"

namespace mlbridge {

namespace {

class ShmListener final : public Listener {
public:
  explicit ShmListener(ListeningSocket socket) : socket_(std::move(socket)) {}

  Expected<std::unique_ptr<Channel>> accept() override {
    Expected<Descriptor> socket = socket_.accept();
    if (!socket)
      return socket.status();
    return std::unique_ptr<Channel>(*socket ? new ShmChannel(std::move(*socket)) : nullptr);
  }
  int descriptor() const override { return socket_.descriptor(); }

private:
  const ListeningSocket socket_;
};

class ShmTransport final : public Transport {
public:
  Expected<std::unique_ptr<Channel>> connect(const Uri &uri, Deadline deadline) const override {
    Expected<Descriptor> socket = connectSocket("shm", uri.place, deadline);
    if (!socket)
      return socket.status();
    return ShmChannel::connect(std::move(*socket));
  }
  Expected<std::unique_ptr<Listener>> listen(const Uri &uri) const override {
    Expected<ListeningSocket> socket = ListeningSocket::at("shm", uri.place);
    if (!socket)
      return socket.status();
    return std::unique_ptr<Listener>(new ShmListener(std::move(*socket)));
  }
};

} // namespace

const Transport &shmTransport() {
  static const ShmTransport transport;
  return transport;
}

} // namespace mlbridge
