// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "transport/grpc/health.h"

#include <grpcpp/support/method_handler.h>

#include <string_view>

namespace mlbridge::grpctransport {

Health::Health() {
  AddMethod(new grpc::internal::RpcServiceMethod(
      "/grpc.health.v1.Health/Check", grpc::internal::RpcMethod::NORMAL_RPC,
      new grpc::internal::RpcMethodHandler<Health, grpc::ByteBuffer, grpc::ByteBuffer>(
          [](Health *, grpc::ServerContext *, const grpc::ByteBuffer *request,
             grpc::ByteBuffer *response) { return check(*request, *response); },
          this)));
}

grpc::Status Health::check(const grpc::ByteBuffer &request, grpc::ByteBuffer &response) {
  // HealthCheckRequest { string service = 1; } and HealthCheckResponse { SERVING = 1 } by hand.
  grpc::Slice only;
  if (request.Length() > 0 && !request.TrySingleSlice(&only).ok() &&
      !request.DumpToSingleSlice(&only).ok())
    return {grpc::StatusCode::INTERNAL, "the request cannot be read"};
  std::string_view name(reinterpret_cast<const char *>(only.begin()), only.size());
  if (name.size() >= 2 && name[0] == 0x0a && size_t(name[1]) == name.size() - 2)
    name.remove_prefix(2);
  if (!name.empty() && name != "mlbridge.v1.Bridge")
    return {grpc::StatusCode::NOT_FOUND, "unknown service"};
  const grpc::Slice serving("\x08\x01", 2);
  response = grpc::ByteBuffer(&serving, 1);
  return grpc::Status::OK;
}

} // namespace mlbridge::grpctransport
