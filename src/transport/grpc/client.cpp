// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <algorithm>
#include <climits>
#include <cstring>
#include <grpcpp/client_context.h>
#include <map>

#include "transport/grpc/client.h"

#include "core/unfit_servers.h"
#include "transport/grpc/names.h"

namespace mlbridge::grpctransport {

namespace {

// A server that is busy sees the end of a connection after a few milliseconds.
constexpr Duration Linger = std::chrono::milliseconds(200);
// A server that takes longer than this to accept gets company.
constexpr Duration MostPatience = std::chrono::seconds(1);
// So many servers are waited for at once.
constexpr size_t MostAsked = 8;

void shutDown(grpc::CompletionQueue &queue) {
  queue.Shutdown();
  void *tag;
  bool ok;
  while (queue.Next(&tag, &ok)) {
  }
}

SharedQueue newQueue() {
  return {new grpc::CompletionQueue, [](grpc::CompletionQueue *queue) {
            shutDown(*queue);
            delete queue;
          }};
}

/// Waits for one event of gRPC, which its handler is told. Whether there was one.
bool handleOne(grpc::CompletionQueue &queue, Deadline deadline) {
  void *tag = nullptr;
  bool ok = false;
  if (queue.AsyncNext(&tag, &ok, timeOf(deadline)) != grpc::CompletionQueue::GOT_EVENT)
    return false;
  static_cast<Tag *>(tag)->finished(ok);
  return true;
}

/// The error of a call that never began.
Status connectError(const grpc::Status &status, bool usesTls) {
  const std::string text = status.error_message();
  switch (status.error_code()) {
  case grpc::StatusCode::OK:
    return Status(Code::Protocol, "the server ended the call before the connection was made");
  case grpc::StatusCode::UNAUTHENTICATED:
  case grpc::StatusCode::PERMISSION_DENIED:
    return Status(Code::InvalidArgument, "the server refused: " + text);
  case grpc::StatusCode::UNIMPLEMENTED:
    return Status(Code::Protocol, "the gRPC server has no service mlbridge.v1.Bridge; for a "
                                  "service of your own use the option 'call'");
  case grpc::StatusCode::DEADLINE_EXCEEDED:
    return Status(Code::DeadlineExceeded, text);
  case grpc::StatusCode::RESOURCE_EXHAUSTED:
    return Status(Code::Busy, text);
  default:
    return unreachable(text, usesTls);
  }
}

constexpr ChannelUse Conversations = {LargestMessage, "mlbridge.v1.Bridge", false};

/// The channels to several servers, which the conversations of a process share, so that each goes
/// to the next server, and one that follows upon another finds connections that are there already.
class Channels {
public:
  /// Errors: those of channelOf.
  Expected<std::shared_ptr<grpc::Channel>> get(const Settings &settings, Deadline deadline,
                                               bool &isNew) {
    const std::string key = keyOf(settings);
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      if (std::shared_ptr<grpc::Channel> known = channels_[key].lock()) {
        isNew = false;
        return known;
      }
    }
    isNew = true;
    Expected<std::shared_ptr<grpc::Channel>> fresh = channelOf(settings, Conversations, deadline);
    if (fresh) {
      const std::lock_guard<std::mutex> lock(mutex_);
      channels_[key] = *fresh;
    }
    return fresh;
  }
  void forget(const Settings &settings, const std::shared_ptr<grpc::Channel> &channel) {
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto found = channels_.find(keyOf(settings));
    if (found != channels_.end() && found->second.lock() == channel)
      channels_.erase(found);
  }

private:
  static std::string keyOf(const Settings &settings) {
    std::string key;
    for (const Address &address : settings.addresses)
      key += address.place() + ",";
    for (const std::string *text :
         {&settings.tlsName, &settings.authorities, &settings.certificate, &settings.key})
      key += "\n" + *text;
    return key + "\n" + std::to_string(settings.tls) + std::to_string(settings.keepAlive.count());
  }

  std::mutex mutex_;
  std::map<std::string, std::weak_ptr<grpc::Channel>> channels_;
};

Channels &channels() {
  static auto &all = *new Channels; // threads may run until the process has ended
  return all;
}

/// "ipv4:127.0.0.1:80" and "ipv6:%5B::1%5D:80" as they stand in a URI.
std::string plainPeer(std::string peer) {
  peer.erase(0, peer.find(':') + 1);
  const auto replace = [&](std::string_view part, const char *by) {
    const size_t at = peer.find(part);
    if (at != peer.npos)
      peer.replace(at, part.size(), by);
    return at != peer.npos;
  };
  replace("%5B", "[");
  replace("%5D", "]");
  if (replace("[::ffff:", "")) // of IPv4
    replace("]", "");
  return peer;
}

} // namespace

ClientStream::ClientStream(const Settings &settings, std::shared_ptr<grpc::Channel> channel,
                           SharedQueue queue)
    : ByteStream(0), usesTls_(settings.tls), queue_(std::move(queue)),
      channel_(std::move(channel)) {
  if (!settings.token.empty())
    context_.AddMetadata("authorization", "Bearer " + settings.token);
  const Lock lock(mutex_);
  call_ = grpc::GenericStub(channel_).PrepareCall(&context_, Method, queue_.get());
  target_ = context_.peer();
  call_->StartCall(start_.begin());
}

/// Looks for one of several servers that takes the call.
class ClientStream::Search {
public:
  Search(const Settings &settings, Deadline deadline)
      : settings_(settings), deadline_(deadline), unfit_(deadline),
        patience_(std::min(patienceOf(deadline.left()), MostPatience)) {}

  Expected<std::unique_ptr<ClientStream>> run() {
    while (true) {
      if (Status s = askNext(); !s)
        return s;
      while (std::unique_ptr<ClientStream> decided = takeDecided()) {
        if (decided->connected_) {
          decided->peer_ = decided->askedServer();
          return decided;
        }
        if (Status s = passOver(std::move(decided)); !s)
          return s;
      }
      if (deadline_.hasPassed())
        return late();
    }
  }

private:
  /// gRPC gives it to the next server, or keeps it until one is there.
  Status askNext() {
    bool isNew = false;
    Expected<std::shared_ptr<grpc::Channel>> channel = channels().get(settings_, deadline_, isNew);
    if (!channel)
      return channel.status();
    wasNew_ |= isNew;
    if (asked_.size() == MostAsked)
      asked_.erase(asked_.begin());
    asked_.emplace_back(new ClientStream(settings_, std::move(*channel), queue_));
    wait(Deadline::after(patience_));
    // As long as it is with nobody, another one would be, too.
    while (!hasDecided() && !deadline_.hasPassed() && asked_.back()->askedServer().empty())
      wait(Deadline::after(patience_));
    return Status();
  }
  /// Until one is decided.
  void wait(Deadline until) {
    until = earlier(until, deadline_);
    while (!hasDecided()) {
      const bool isLate = until.hasPassed();
      if (!handleOne(*queue_, until) && isLate)
        return;
    }
  }
  bool hasDecided() const {
    return std::any_of(asked_.begin(), asked_.end(),
                       [](const auto &stream) { return stream->isDecided(); });
  }
  /// One that is connected, else one that failed, else null.
  std::unique_ptr<ClientStream> takeDecided() {
    const auto take = [&](auto &&isWanted) -> std::unique_ptr<ClientStream> {
      const auto found = std::find_if(asked_.begin(), asked_.end(), isWanted);
      if (found == asked_.end())
        return nullptr;
      std::unique_ptr<ClientStream> taken = std::move(*found);
      asked_.erase(found);
      return taken;
    };
    std::unique_ptr<ClientStream> best =
        take([](const auto &stream) { return stream->connected_; });
    return best ? std::move(best) : take([](const auto &stream) { return stream->isDecided(); });
  }
  /// Ok if another one may be asked.
  Status passOver(std::unique_ptr<ClientStream> refused) {
    const std::string server = refused->askedServer();
    const std::shared_ptr<grpc::Channel> channel = refused->channel_;
    Status why = refused->refusal();
    refused.reset();
    if (!server.empty()) {
      why = why.withContext(server);
      const auto count = [&] { return serversOf(settings_.addresses, deadline_); };
      const std::optional<Duration> pause = unfit_.add(server, why, count);
      if (!pause)
        return why;
      wait(Deadline::after(*pause)); // gRPC goes on connecting to others
      return Status();
    }
    // No server: a channel that has been there waits before it connects again, a new one doesn't.
    if (wasNew_ || why.code() != Code::Unavailable)
      return why;
    channels().forget(settings_, channel);
    return Status();
  }
  Status late() const {
    const std::string server = asked_.empty() ? std::string() : asked_.back()->askedServer();
    const Status why(Code::DeadlineExceeded, "the server did not accept in time");
    return server.empty() ? why : why.withContext(server);
  }

  const Settings &settings_;
  const Deadline deadline_;
  UnfitServers unfit_;
  const Duration patience_;
  const SharedQueue queue_ = newQueue();
  std::vector<std::unique_ptr<ClientStream>> asked_; ///< the oldest first
  bool wasNew_ = false;                              ///< a channel was
};

Expected<std::unique_ptr<ClientStream>> ClientStream::connect(const Settings &settings,
                                                              Deadline deadline) {
  const NoSignals guard;
  return isFleet(settings) ? Search(settings, deadline).run() : connectToOne(settings, deadline);
}

Expected<std::unique_ptr<ClientStream>> ClientStream::connectToOne(const Settings &settings,
                                                                   Deadline deadline) {
  Expected<std::shared_ptr<grpc::Channel>> channel = channelOf(settings, Conversations, deadline);
  if (!channel)
    return channel.status();
  std::unique_ptr<ClientStream> stream(new ClientStream(settings, std::move(*channel), newQueue()));
  if (!stream->driveUntil([&] { return stream->isDecided(); }, deadline))
    return Status(Code::DeadlineExceeded, "the server did not accept in time");
  if (!stream->connected_)
    return stream->refusal();
  return stream;
}

Status ClientStream::refusal() const { return connectError(status_, usesTls_); }

std::string ClientStream::askedServer() const {
  const std::string peer = context_.peer();
  return peer == target_ ? std::string() : plainPeer(peer);
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
  const bool found = handleOne(*queue_, deadline);
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
}

namespace {

int clamped(uint64_t size) { return static_cast<int>(std::min<uint64_t>(size, INT_MAX)); }

/// The error that the end of a call means for its caller.
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

UnaryClient::UnaryClient(const Settings &settings, std::shared_ptr<grpc::Channel> channel,
                         uint64_t largestReply)
    : token_(settings.token), usesTls_(settings.tls), largestReply_(largestReply),
      channel_(std::move(channel)), stub_(channel_) {}

UnaryClient::~UnaryClient() {
  for (const Queue &queue : idle_)
    shutDown(*queue);
}

Expected<std::unique_ptr<UnaryClient>>
UnaryClient::connect(const Settings &settings, uint64_t largestReply, Deadline deadline) {
  const NoSignals guard;
  // An evaluation is a call by itself, so gRPC may repeat it at another server.
  Expected<std::shared_ptr<grpc::Channel>> channel =
      channelOf(settings, {clamped(largestReply), "", true}, deadline);
  if (!channel)
    return channel.status();
  std::unique_ptr<UnaryClient> client(new UnaryClient(settings, std::move(*channel), largestReply));
  if (Status s = client->waitUntilConnected(deadline); !s)
    return s;
  return client;
}

Status UnaryClient::waitUntilConnected(Deadline deadline) {
  grpc_connectivity_state state = channel_->GetState(true);
  while (state != GRPC_CHANNEL_READY && state != GRPC_CHANNEL_TRANSIENT_FAILURE &&
         channel_->WaitForStateChange(state, timeOf(deadline)))
    state = channel_->GetState(true);
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
    return Status(
        Code::InvalidArgument,
        "the connection was opened before fork(); open the model again in the child process");
  grpc::ByteBuffer bytes;
  const grpc::Status status = invoke("/" + method, request, deadline, bytes);
  if (!status.ok())
    return errorOf(status, method, usesTls_);
  return append(bytes, largestReply_, reply).withContext(method);
}

} // namespace mlbridge::grpctransport
