// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// grpc.health.v1.Health/Check, as balancers and orchestrators ask it. gRPC's own implementation has
// two threads that take part in all polling of the server, which nearly doubles a short round trip.
#ifndef MLBRIDGE_TRANSPORT_GRPC_HEALTH_H
#define MLBRIDGE_TRANSPORT_GRPC_HEALTH_H

#include <grpcpp/impl/service_type.h>
#include <grpcpp/server_context.h>
#include <grpcpp/support/byte_buffer.h>

namespace mlbridge::grpctransport {

/// Serving, for as long as the server is there. `Watch` is not implemented, which clients take for
/// healthy.
class Health final : public grpc::Service {
public:
  Health();

private:
  static grpc::Status check(const grpc::ByteBuffer &request, grpc::ByteBuffer &response);
};

} // namespace mlbridge::grpctransport

#endif
