// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// unix:PATH, a stream socket in the file system with mode 0600.
#include "transport/unix/socket.h"

namespace mlbridge {

namespace {

class UnixChannel final : public Channel {
public:
  explicit UnixChannel(Descriptor socket) : socket_(std::move(socket)) {}

  Expected<size_t> read(uint8_t *to, size_t size) override {
    return readSocket(socket_.get(), to, size);
  }
  Expected<size_t> write(const iovec *parts, int count) override {
    return writeSocket(socket_.get(), parts, count);
  }
  int readDescriptor() const override { return socket_.get(); }
  int writeDescriptor() const override { return socket_.get(); }

private:
  const Descriptor socket_;
};

class UnixListener final : public Listener {
public:
  explicit UnixListener(ListeningSocket socket) : socket_(std::move(socket)) {}

  Expected<std::unique_ptr<Channel>> accept() override {
    Expected<Descriptor> socket = socket_.accept();
    if (!socket)
      return socket.status();
    return std::unique_ptr<Channel>(*socket ? new UnixChannel(std::move(*socket)) : nullptr);
  }
  int descriptor() const override { return socket_.descriptor(); }

private:
  const ListeningSocket socket_;
};

class UnixTransport final : public Transport {
public:
  Expected<std::unique_ptr<Channel>> connect(const Uri &uri, Deadline deadline) const override {
    Expected<Descriptor> socket = connectSocket("unix", uri.place, deadline);
    if (!socket)
      return socket.status();
    return std::unique_ptr<Channel>(new UnixChannel(std::move(*socket)));
  }
  Expected<std::unique_ptr<Listener>> listen(const Uri &uri) const override {
    Expected<ListeningSocket> socket = ListeningSocket::at("unix", uri.place);
    if (!socket)
      return socket.status();
    return std::unique_ptr<Listener>(new UnixListener(std::move(*socket)));
  }
};

} // namespace

const Transport &unixTransport() {
  static const UnixTransport transport;
  return transport;
}

} // namespace mlbridge
