// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Stream sockets in the file system with mode 0600, for the transports that meet there.
#ifndef MLBRIDGE_TRANSPORT_UNIX_SOCKET_H
#define MLBRIDGE_TRANSPORT_UNIX_SOCKET_H

#include "transport/transport.h"

#include <sys/types.h>

namespace mlbridge {

/// Errors: those of Transport::connect. `scheme` is for their texts.
Expected<Descriptor> connectSocket(const std::string &scheme, const std::string &path,
                                   Deadline deadline);

/// Channel::read and Channel::write of a socket.
Expected<size_t> readSocket(int socket, uint8_t *to, size_t size);
Expected<size_t> writeSocket(int socket, const iovec *parts, int count);

/// A socket that listens; its file is gone when it is destroyed.
class ListeningSocket {
public:
  /// Errors: those of Transport::listen.
  static Expected<ListeningSocket> at(const std::string &scheme, const std::string &path);
  ListeningSocket(ListeningSocket &&) noexcept = default;
  ~ListeningSocket();

  /// Empty if nobody is waiting.
  Expected<Descriptor> accept() const;
  int descriptor() const { return socket_.get(); }

private:
  ListeningSocket(Descriptor socket, std::string scheme, std::string path)
      : socket_(std::move(socket)), scheme_(std::move(scheme)), path_(std::move(path)) {}

  Descriptor socket_;
  std::string scheme_, path_;
  dev_t device_ = 0;
  ino_t inode_ = 0;
};

} // namespace mlbridge

#endif
