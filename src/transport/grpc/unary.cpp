// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "transport/grpc/unary.h"

#include "transport/grpc/channel.h"
#include "transport/grpc/library.h"

#include <grpcpp/client_context.h>

#include <algorithm>
#include <climits>
#include <cstring>

namespace mlbridge::grpctransport {

namespace {

int clamped(uint64_t size) { return static_cast<int>(std::min<uint64_t>(size, INT_MAX)); }

void drain(grpc::CompletionQueue &queue) {
  queue.Shutdown();
  void *tag;
  bool ok;
  while (queue.Next(&tag, &ok)) {
  }
}

/// What the end of a call means for who made it.
Status errorOf(const grpc::Status &status, const std::string &method, bool usesTls) {
  const std::string text =
      status.error_message().empty() ? "no reason given" : status.error_message();
  const std::string said = method + ": " + text;
  switch (status.error_code()) {
  case grpc::StatusCode::OK:
    return Status();
  case grpc::StatusCode::DEADLINE_EXCEEDED:
    return Status(Code::DeadlineExceeded, method + ": no answer in time");
  case grpc::StatusCode::UNAVAILABLE:
    return unreachable(text, usesTls).withContext(method);
  case grpc::StatusCode::UNIMPLEMENTED:
    return Status(Code::Unsupported,
                  "the server has no service and method '" + method + "' (" + text + ")");
  case grpc::StatusCode::INVALID_ARGUMENT:
  case grpc::StatusCode::OUT_OF_RANGE:
    return Status(Code::InvalidArgument, said);
  case grpc::StatusCode::UNAUTHENTICATED:
  case grpc::StatusCode::PERMISSION_DENIED:
    return Status(Code::InvalidArgument, method + ": the server refused: " + text);
  case grpc::StatusCode::RESOURCE_EXHAUSTED:
    // gRPC says the same of a message that is too large as of a server with too much to do.
    return Status(text.find("larger than max") != text.npos ? Code::LimitExceeded : Code::Busy,
                  said);
  case grpc::StatusCode::CANCELLED:
    return Status(Code::Cancelled, said);
  case grpc::StatusCode::NOT_FOUND:
    return Status(Code::NotFound, said);
  default:
    return Status(Code::PolicyFailed, said);
  }
}

Status append(const grpc::ByteBuffer &bytes, uint64_t limit, mlb_buffer &to) {
  const uint64_t size = bytes.Length();
  if (size > limit || size > UINT64_MAX - to.size)
    return Status(Code::LimitExceeded, "the reply has " + std::to_string(size) +
                                           " bytes, 'max-message' is " + std::to_string(limit));
  if (to.size + size > to.capacity && to.reserve(&to, to.size + size) != 0)
    return Status(Code::LimitExceeded, "no memory for " + std::to_string(size) + " bytes");
  std::vector<grpc::Slice> slices;
  if (size && !bytes.Dump(&slices).ok())
    return Status(Code::Internal, "the reply cannot be read");
  for (const grpc::Slice &slice : slices) {
    std::memcpy(to.data + to.size, slice.begin(), slice.size());
    to.size += slice.size();
  }
  return Status();
}

} // namespace

UnaryClient::UnaryClient(const Settings &settings, uint64_t largestReply)
    : token_(settings.token), usesTls_(settings.tls), largestReply_(largestReply),
      channel_(channelOf(settings, clamped(largestReply))), stub_(channel_) {}

UnaryClient::~UnaryClient() {
  for (const Queue &queue : idle_)
    drain(*queue);
}

Expected<std::unique_ptr<UnaryClient>>
UnaryClient::connect(const Settings &settings, uint64_t largestReply, Deadline deadline) {
  const NoSignals guard;
  std::unique_ptr<UnaryClient> client(new UnaryClient(settings, largestReply));
  if (Status s = client->waitUntilConnected(deadline); !s)
    return s;
  return client;
}

Status UnaryClient::waitUntilConnected(Deadline deadline) {
  grpc::CompletionQueue queue;
  grpc_connectivity_state state = channel_->GetState(true);
  bool late = false;
  while (state != GRPC_CHANNEL_READY && state != GRPC_CHANNEL_TRANSIENT_FAILURE && !late) {
    channel_->NotifyOnStateChange(state, timeOf(deadline), &queue, nullptr);
    void *tag;
    bool changed = false;
    late = !queue.Next(&tag, &changed) || !changed;
    state = channel_->GetState(true);
  }
  drain(queue);
  if (state == GRPC_CHANNEL_READY)
    return Status();
  if (state != GRPC_CHANNEL_TRANSIENT_FAILURE)
    return Status(Code::DeadlineExceeded, "the server did not accept in time");
  // Only a call is told why. It does not leave this process, unless somebody is there after all.
  grpc::ByteBuffer reply;
  const grpc::Status why = invoke("/grpc.health.v1.Health/Check", {}, deadline, reply);
  return why.error_code() == grpc::StatusCode::UNAVAILABLE ||
                 why.error_code() == grpc::StatusCode::DEADLINE_EXCEEDED
             ? unreachable(why.error_message(), usesTls_)
             : Status();
}

grpc::Status UnaryClient::invoke(const std::string &name, Span<const uint8_t> request,
                                 Deadline deadline, grpc::ByteBuffer &reply) {
  Queue queue;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (!idle_.empty()) {
      queue = std::move(idle_.back());
      idle_.pop_back();
    }
  }
  if (!queue)
    queue = std::make_unique<grpc::CompletionQueue>();
  grpc::ClientContext context;
  context.set_deadline(timeOf(deadline));
  if (!token_.empty())
    context.AddMetadata("authorization", "Bearer " + token_);
  const grpc::Slice slice =
      request.empty() ? grpc::Slice() : grpc::Slice(request.data(), request.size());
  const grpc::ByteBuffer message(&slice, 1);
  grpc::Status status;
  const auto call = stub_.PrepareUnaryCall(&context, name, message, queue.get());
  call->StartCall();
  call->Finish(&reply, &status, this);
  void *tag;
  bool ok;
  (void)queue->Next(&tag, &ok); // which the deadline ends
  const std::lock_guard<std::mutex> lock(mutex_);
  idle_.push_back(std::move(queue));
  return status;
}

Status UnaryClient::call(const std::string &method, Span<const uint8_t> request, Deadline deadline,
                         mlb_buffer &reply) {
  if (isForked())
    return Status(Code::InvalidArgument, "this process was forked off the one that connected");
  grpc::ByteBuffer bytes;
  const grpc::Status status = invoke("/" + method, request, deadline, bytes);
  if (!status.ok())
    return errorOf(status, method, usesTls_);
  return append(bytes, largestReply_, reply).withContext(method);
}

} // namespace mlbridge::grpctransport
