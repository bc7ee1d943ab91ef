// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The socket of a server. gRPC's own stops listening for good once no descriptor is left.
#ifndef MLBRIDGE_TRANSPORT_GRPC_ACCEPTOR_H
#define MLBRIDGE_TRANSPORT_GRPC_ACCEPTOR_H

#include "transport/grpc/settings.h"
#include "transport/transport.h"

#include <grpcpp/server_builder.h>

#include <memory>
#include <thread>

namespace mlbridge::grpctransport {

/// Accepts connections on a thread of its own, and hands them to gRPC.
class Acceptor {
public:
  using Taker = grpc::experimental::ExternalConnectionAcceptor;

  ~Acceptor() { stop(); }
  /// Errors: Busy, InvalidArgument, LimitExceeded.
  Status listen(const Settings &settings);
  uint16_t port() const { return port_; }
  /// Errors: LimitExceeded.
  Status start(std::unique_ptr<Taker> taker);
  /// Nobody is accepted any more, and the address is free.
  void stop();

private:
  void run();
  /// False if there is nobody, or no descriptor for it.
  bool acceptOne(bool &isExhausted);

  Descriptor socket_, quit_;
  uint16_t port_ = 0;
  std::unique_ptr<Taker> taker_;
  std::thread thread_;
};

} // namespace mlbridge::grpctransport

#endif
