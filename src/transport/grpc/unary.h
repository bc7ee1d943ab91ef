// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Calls of a service that knows nothing of MLBridge.
#ifndef MLBRIDGE_TRANSPORT_GRPC_UNARY_H
#define MLBRIDGE_TRANSPORT_GRPC_UNARY_H

#include "transport/grpc/settings.h"

#include <mlbridge/tensor.h>

#include <grpcpp/channel.h>
#include <grpcpp/completion_queue.h>
#include <grpcpp/generic/generic_stub.h>

#include <memory>
#include <mutex>
#include <vector>

namespace mlbridge::grpctransport {

/// Thread-safe: calls share the channel, and nothing else.
class UnaryClient {
public:
  /// Waits until there is an HTTP/2 connection, and asks nothing of the server. Errors:
  /// Unavailable, DeadlineExceeded, InvalidArgument (TLS).
  static Expected<std::unique_ptr<UnaryClient>> connect(const Settings &settings,
                                                        uint64_t largestReply, Deadline deadline);
  ~UnaryClient();

  /// See mlb_transport::call. `method` is "pkg.Service/Method".
  Status call(const std::string &method, Span<const uint8_t> request, Deadline deadline,
              mlb_buffer &reply);

private:
  using Queue = std::unique_ptr<grpc::CompletionQueue>;

  UnaryClient(const Settings &settings, uint64_t largestReply);
  Status waitUntilConnected(Deadline deadline);
  /// `name` begins with a slash.
  grpc::Status invoke(const std::string &name, Span<const uint8_t> request, Deadline deadline,
                      grpc::ByteBuffer &reply);

  const std::string token_;
  const bool usesTls_;
  const uint64_t largestReply_;
  const std::shared_ptr<grpc::Channel> channel_;
  grpc::GenericStub stub_;
  std::mutex mutex_;
  std::vector<Queue> idle_; ///< one for each thread that called at the same time
};

} // namespace mlbridge::grpctransport

#endif
