// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "transport/grpc/client.h"

#include "transport/grpc/channel.h"
#include "transport/grpc/library.h"

namespace mlbridge::grpctransport {

namespace {

// A server that is busy sees the end of a connection after a few milliseconds.
constexpr Duration Linger = std::chrono::milliseconds(200);

/// What a call that never began means.
Status connectError(const grpc::Status &status, bool usesTls) {
  const std::string text = status.error_message();
  switch (status.error_code()) {
  case grpc::StatusCode::OK:
    return Status(Code::Protocol, "the server ended the call before it began");
  case grpc::StatusCode::UNAUTHENTICATED:
  case grpc::StatusCode::PERMISSION_DENIED:
    return Status(Code::InvalidArgument, "the server refused: " + text);
  case grpc::StatusCode::UNIMPLEMENTED:
    return Status(Code::Protocol, "there is a gRPC server, but no service mlbridge.v1.Bridge");
  case grpc::StatusCode::DEADLINE_EXCEEDED:
    return Status(Code::DeadlineExceeded, text);
  case grpc::StatusCode::RESOURCE_EXHAUSTED:
    return Status(Code::Busy, text);
  default:
    return unreachable(text, usesTls);
  }
}

} // namespace

ClientStream::ClientStream(const Settings &settings)
    : ByteStream(0), usesTls_(settings.tls), channel_(channelOf(settings, LargestMessage)) {
  if (!settings.token.empty())
    context_.AddMetadata("authorization", "Bearer " + settings.token);
}

Expected<std::unique_ptr<ClientStream>> ClientStream::connect(const Settings &settings,
                                                              Deadline deadline) {
  const NoSignals guard;
  std::unique_ptr<ClientStream> stream(new ClientStream(settings));
  if (Status s = stream->shake(deadline); !s)
    return s;
  return stream;
}

Status ClientStream::shake(Deadline deadline) {
  {
    const Lock lock(mutex_);
    call_ = grpc::GenericStub(channel_).PrepareCall(&context_, Method, &queue_);
    call_->StartCall(start_.begin());
  }
  if (!driveUntil([this] { return connected_ || hasStatus_; }, deadline))
    return Status(Code::DeadlineExceeded, "the server did not accept in time");
  const Lock lock(mutex_);
  return connected_ ? Status() : connectError(status_, usesTls_);
}

void ClientStream::onStarted(bool ok) {
  if (!ok)
    return inputEnded();
  call_->ReadInitialMetadata(metadata_.begin());
}

void ClientStream::onMetadata(bool ok) {
  // A refusal has nothing but its status.
  if (!ok || context_.GetServerInitialMetadata().count(AcceptedKey) == 0)
    return inputEnded();
  connected_ = true;
  open(*call_, *call_);
}

void ClientStream::inputEnded() {
  if (asksStatus_)
    return;
  asksStatus_ = true;
  if (ended_) // by something that the server should not have sent
    context_.TryCancel();
  call_->Finish(&status_, finish_.begin());
}

void ClientStream::onStatus(bool) {
  hasStatus_ = true;
  end(Status(Code::Closed, status_.ok() ? "the server closed the connection"
                                        : "the connection is gone: " + status_.error_message()));
}

// ---- waiting ------------------------------------------------------------------------------------

bool ClientStream::drive(std::unique_lock<std::mutex> &lock, Deadline deadline) {
  if (driving_) {
    if (deadline.isNever())
      driven_.wait(lock);
    else if (deadline.hasPassed())
      return false;
    else
      driven_.wait_until(lock, deadline.when());
    return true;
  }
  driving_ = true;
  lock.unlock();
  void *tag = nullptr;
  bool ok = false;
  const bool found =
      queue_.AsyncNext(&tag, &ok, timeOf(deadline)) == grpc::CompletionQueue::GOT_EVENT;
  if (found)
    static_cast<Tag *>(tag)->finished(ok);
  lock.lock();
  driving_ = false;
  driven_.notify_all();
  return found;
}

template <typename Done> bool ClientStream::driveUntil(Done done, Deadline deadline) {
  std::unique_lock<std::mutex> lock(mutex_);
  while (!done()) {
    const bool late = deadline.hasPassed();
    if (!drive(lock, deadline) && late)
      return done();
  }
  return true;
}

Expected<uint32_t> ClientStream::wait(uint32_t wanted, Deadline deadline) {
  if (wanted & MLB_READ) {
    const Lock lock(mutex_);
    if (!isReadable())
      startReading();
  }
  uint32_t ready = 0;
  if (!driveUntil(
          [&] {
            ready = wanted & ((isReadable() ? MLB_READ : 0) | (isWritable() ? MLB_WRITE : 0));
            return ready != 0;
          },
          deadline))
    return Status(Code::DeadlineExceeded, "the deadline has passed");
  return ready;
}

Expected<size_t> ClientStream::read(uint8_t *to, size_t size) {
  Expected<size_t> done = take(to, size);
  if (!done || *done)
    return done;
  driveUntil([this] { return isReadable(); }, Deadline::after(Duration::zero()));
  return take(to, size);
}

Expected<size_t> ClientStream::write(const mlb_bytes *parts, size_t count) {
  driveUntil([this] { return isWritable(); }, Deadline::after(Duration::zero()));
  return give(parts, count);
}

ClientStream::~ClientStream() {
  const Deadline soon = Deadline::after(Linger);
  if (connected_ && heard_) { // else nobody answered within a deadline, and it has passed
    driveUntil([this] { return !hasUnsent(); }, soon);
    {
      const Lock lock(mutex_);
      if (!ended_ && !hasUnsent())
        call_->WritesDone(halfClose_.begin());
      ignoreInput();
    }
    driveUntil([this] { return hasStatus_; }, soon);
  }
  context_.TryCancel();
  driveUntil([this] { return operations() == 0; }, Deadline::never());
  queue_.Shutdown();
  void *tag;
  bool ok;
  while (queue_.Next(&tag, &ok)) {
  }
}

} // namespace mlbridge::grpctransport
