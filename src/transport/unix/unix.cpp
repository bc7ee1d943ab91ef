// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// unix:PATH, a stream socket in the file system.
#include "transport/builtin.h"
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

} // namespace

const Transport &unixTransport() {
  const auto newChannel = [](Descriptor socket) -> Expected<std::unique_ptr<Channel>> {
    return std::unique_ptr<Channel>(new UnixChannel(std::move(socket)));
  };
  // Threads may run until the process ends.
  static const auto &transport = *new SocketTransport("unix", newChannel, newChannel);
  return transport;
}

} // namespace mlbridge
