// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The compiler's side. It has no thread: whoever waits for bytes drives gRPC meanwhile, which
// spares a change of threads in each round trip.
#ifndef MLBRIDGE_TRANSPORT_GRPC_CLIENT_H
#define MLBRIDGE_TRANSPORT_GRPC_CLIENT_H

#include "transport/grpc/byte_stream.h"
#include "transport/grpc/library.h"

#include <grpcpp/channel.h>
#include <grpcpp/client_context.h>
#include <grpcpp/completion_queue.h>
#include <grpcpp/generic/generic_stub.h>

#include <condition_variable>
#include <memory>
#include <mlbridge/tensor.h>
#include <mutex>
#include <vector>

namespace mlbridge::grpctransport {

/// Given to several streams while they try to connect, by one thread.
using SharedQueue = std::shared_ptr<grpc::CompletionQueue>;

class ClientStream final : public ByteStream {
public:
  /// Asks one server after another until one takes the call; one that is silent goes on being
  /// waited for meanwhile. Errors: Unavailable (none is there), DeadlineExceeded, InvalidArgument
  /// (refused by the server), Protocol, Busy.
  static Expected<std::unique_ptr<ClientStream>> connect(const Settings &settings,
                                                         Deadline deadline);
  /// Sends what was given, and lets the server take it, for a moment.
  ~ClientStream() override;

  Expected<size_t> read(uint8_t *to, size_t size);
  Expected<size_t> write(const mlb_bytes *parts, size_t count);
  /// MLB_READ and MLB_WRITE. Errors: DeadlineExceeded.
  Expected<uint32_t> wait(uint32_t wanted, Deadline deadline);
  /// "HOST:PORT" of the server; empty if it was the only one.
  const std::string &peer() const { return peer_; }

private:
  class Search;

  /// Begins the call.
  ClientStream(const Settings &settings, std::shared_ptr<grpc::Channel> channel, SharedQueue queue);
  static Expected<std::unique_ptr<ClientStream>> connectToOne(const Settings &settings,
                                                              Deadline deadline);
  bool isDecided() const { return connected_ || hasStatus_; }
  /// The reason why the call was not taken.
  Status refusal() const;
  /// "HOST:PORT" of the server that the call was given to; empty before.
  std::string askedServer() const;
  /// Lets gRPC do something, or waits for the thread that does. Whether anything happened.
  bool drive(std::unique_lock<std::mutex> &lock, Deadline deadline);
  template <typename Done> bool driveUntil(Done done, Deadline deadline);

  void onStarted(bool ok);
  void onMetadata(bool ok);
  void onHalfClosed(bool) {}
  void onStatus(bool ok);
  void inputEnded() override;

  bool usesTls_;
  std::string target_; ///< all servers, as gRPC has them
  std::string peer_;
  SharedQueue queue_;
  std::shared_ptr<grpc::Channel> channel_;
  grpc::ClientContext context_;
  std::unique_ptr<grpc::GenericClientAsyncReaderWriter> call_;
  grpc::Status status_;
  bool connected_ = false, asksStatus_ = false, hasStatus_ = false;
  bool driving_ = false;
  std::condition_variable driven_;

  Operation<ClientStream, &ClientStream::onStarted> start_{*this};
  Operation<ClientStream, &ClientStream::onMetadata> metadata_{*this};
  Operation<ClientStream, &ClientStream::onHalfClosed> halfClose_{*this};
  Operation<ClientStream, &ClientStream::onStatus> finish_{*this};
};

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

  UnaryClient(const Settings &settings, std::shared_ptr<grpc::Channel> channel,
              uint64_t largestReply);
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
