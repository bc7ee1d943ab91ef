// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Stream sockets in the file system with mode 0600, for the transports that meet there.
#ifndef MLBRIDGE_TRANSPORT_SOCKET_H
#define MLBRIDGE_TRANSPORT_SOCKET_H

#include "transport/transport.h"

namespace mlbridge {

/// Errors: those of Transport::connect. `scheme` is for their texts.
Expected<Descriptor> connectSocket(const std::string &scheme, const std::string &path,
                                   Deadline deadline);

/// Channel::read and Channel::write of a socket.
Expected<size_t> readSocket(int socket, uint8_t *to, size_t size);
Expected<size_t> writeSocket(int socket, const iovec *parts, int count);

/// SCHEME:PATH, with channels that these functions make of a socket.
class SocketTransport final : public Transport {
public:
  using NewChannel = Expected<std::unique_ptr<Channel>> (*)(Descriptor socket);
  SocketTransport(std::string scheme, NewChannel connected, NewChannel accepted)
      : scheme_(std::move(scheme)), connected_(connected), accepted_(accepted) {}
  Expected<std::unique_ptr<Channel>> connect(const Uri &uri, Deadline deadline) const override;
  Expected<std::unique_ptr<Listener>> listen(const Uri &uri) const override;

private:
  const std::string scheme_;
  const NewChannel connected_, accepted_;
};

} // namespace mlbridge

#endif
