// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// shm:PATH, memory shared by two processes that meet at a socket in the file system.
#include "transport/shm/channel.h"
#include "transport/socket.h"

namespace mlbridge {

namespace {

class ShmTransport final : public SocketTransport {
public:
  ShmTransport() : SocketTransport("shm") {}
  Expected<std::unique_ptr<Channel>> connected(Descriptor socket) const override {
    return ShmChannel::connect(std::move(socket));
  }
  std::unique_ptr<Channel> accepted(Descriptor socket) const override {
    return std::make_unique<ShmChannel>(std::move(socket));
  }
};

} // namespace

const Transport &shmTransport() {
  static const auto &transport = *new ShmTransport; // threads may run until the process ends
  return transport;
}

} // namespace mlbridge
