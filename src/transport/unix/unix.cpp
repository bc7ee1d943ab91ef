// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// unix:PATH, a stream socket in the file system with mode 0600.
#include "transport/socket.h"

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

class UnixTransport final : public SocketTransport {
public:
  UnixTransport() : SocketTransport("unix") {}
  Expected<std::unique_ptr<Channel>> connected(Descriptor socket) const override {
    return accepted(std::move(socket));
  }
  std::unique_ptr<Channel> accepted(Descriptor socket) const override {
    return std::make_unique<UnixChannel>(std::move(socket));
  }
};

} // namespace

const Transport &unixTransport() {
  static const auto &transport = *new UnixTransport; // threads may run until the process ends
  return transport;
}

} // namespace mlbridge
