// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "transport/grpc/server.h"

#include <grpcpp/security/server_credentials.h>
#include <grpcpp/support/method_handler.h>

#include <cerrno>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <string_view>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <system_error>
#include <unistd.h>

namespace mlbridge::grpctransport {

namespace {

// Streams that the library has not accepted yet; more are refused.
constexpr size_t MostWaiting = 1024;
// Calls that watch the health; more are ended.
constexpr size_t MostWatchers = 4096;
constexpr int WatchMethod = 1;
// How long a stream that was closed, or a server that stops, goes on sending what it was given.
constexpr auto Linger = std::chrono::seconds(2);
constexpr auto LingerAtStop = std::chrono::milliseconds(500);
// The bytes that closed streams may keep together; a stream that has more is cut off.
constexpr size_t MostLingering = 8 << 20;

std::shared_ptr<grpc::ServerCredentials> credentialsOf(const Settings &settings) {
  if (!settings.tls)
    return grpc::InsecureServerCredentials();
  grpc::SslServerCredentialsOptions options(
      settings.authorities.empty() ? GRPC_SSL_DONT_REQUEST_CLIENT_CERTIFICATE
                                   : GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY);
  options.pem_root_certs = settings.authorities;
  options.pem_key_cert_pairs.push_back({settings.key, settings.certificate});
  return grpc::SslServerCredentials(options);
}

/// True if gRPC can use them; it doesn't say so of those with which it is handed connections.
Status tryCredentials(const Settings &settings) {
  if (!settings.tls)
    return Status();
  Health service;
  int port = 0;
  grpc::ServerBuilder builder;
  builder.SetSyncServerOption(grpc::ServerBuilder::NUM_CQS, 1);
  builder.SetSyncServerOption(grpc::ServerBuilder::MAX_POLLERS, 1);
  builder.RegisterService(&service);
  builder.AddListeningPort("127.0.0.1:0", credentialsOf(settings), &port);
  if (const std::unique_ptr<grpc::Server> server = builder.BuildAndStart(); server && port != 0)
    return Status();
  return Status(Code::InvalidArgument,
                "listen at " + settings.addresses.front().place() +
                    ": the certificate and key cannot be read or do not match");
}

template <typename Run> Status startThread(std::thread &thread, Run run) {
  try {
    thread = std::thread(run);
  } catch (const std::system_error &error) {
    return Status(Code::LimitExceeded, describeErrno("start a thread", error.code().value()));
  }
  return Status();
}

/// Takes as long for a wrong text as for the right one of that length.
bool isEqual(std::string_view a, std::string_view b) {
  if (a.size() != b.size())
    return false;
  volatile unsigned char difference = 0;
  for (size_t i = 0; i < a.size(); ++i)
    difference = static_cast<unsigned char>(difference | (a[i] ^ b[i]));
  return difference == 0;
}

// How long the acceptor waits for descriptors to become free.
constexpr int PauseMs = 100;

struct Free {
  void operator()(addrinfo *info) const { ::freeaddrinfo(info); }
};

uint16_t portOf(int socket) {
  sockaddr_storage address{};
  socklen_t size = sizeof address;
  if (::getsockname(socket, reinterpret_cast<sockaddr *>(&address), &size) != 0)
    return 0;
  return ntohs(address.ss_family == AF_INET6
                   ? reinterpret_cast<const sockaddr_in6 *>(&address)->sin6_port
                   : reinterpret_cast<const sockaddr_in *>(&address)->sin_port);
}

} // namespace

// ---- Acceptor -----------------------------------------------------------------------------------

Status Acceptor::listen(const Settings &settings) {
  const Address &address = settings.addresses.front();
  const std::string where = "listen at " + address.place();
  addrinfo wanted{};
  wanted.ai_socktype = SOCK_STREAM;
  wanted.ai_flags = AI_PASSIVE | AI_NUMERICSERV;
  addrinfo *found = nullptr;
  const std::string port = std::to_string(address.port);
  if (const int error = ::getaddrinfo(address.host.c_str(), port.c_str(), &wanted, &found))
    return Status(Code::InvalidArgument, where + ": " + ::gai_strerror(error));
  const std::unique_ptr<addrinfo, Free> info(found);
  socket_ = Descriptor(
      ::socket(info->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, info->ai_protocol));
  quit_ = Descriptor(::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC));
  if (!socket_ || !quit_)
    return Status(Code::LimitExceeded, describeErrno(where, errno));
  const int one = 1, zero = 0;
  ::setsockopt(socket_.get(), SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
  ::setsockopt(socket_.get(), IPPROTO_TCP, TCP_NODELAY, &one,
               sizeof one); // connections have it too
  if (info->ai_family == AF_INET6)
    ::setsockopt(socket_.get(), IPPROTO_IPV6, IPV6_V6ONLY, &zero, sizeof zero);
  if (::bind(socket_.get(), info->ai_addr, info->ai_addrlen) != 0 ||
      ::listen(socket_.get(), SOMAXCONN) != 0) {
    if (errno == EADDRINUSE)
      return Status(Code::Busy, where + ": another server is there");
    return Status(Code::InvalidArgument, describeErrno(where, errno));
  }
  port_ = portOf(socket_.get());
  return Status();
}

Status Acceptor::start(std::unique_ptr<Taker> taker) {
  taker_ = std::move(taker);
  const NoSignals guard;
  return startThread(thread_, [this] { run(); });
}

void Acceptor::stop() {
  if (thread_.joinable()) {
    const uint64_t one = 1;
    (void)!::write(quit_.get(), &one, sizeof one);
    thread_.join();
  }
  socket_ = Descriptor();
}

bool Acceptor::acceptOne(bool &isExhausted) {
  Descriptor connection(::accept4(socket_.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
  if (!connection) {
    isExhausted = errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM;
    return errno == EINTR || errno == ECONNABORTED;
  }
  Taker::NewConnectionParameters parameters;
  parameters.listener_fd = socket_.get();
  parameters.fd = connection.release();
  taker_->HandleNewConnection(&parameters);
  return true;
}

void Acceptor::run() {
  pollfd watched[2] = {{quit_.get(), POLLIN, 0}, {socket_.get(), POLLIN, 0}};
  bool isExhausted = false;
  while (true) {
    // A connection that waits to be accepted would wake it again and again.
    ::poll(watched, isExhausted ? 1 : 2, isExhausted ? PauseMs : -1);
    if (watched[0].revents)
      return;
    isExhausted = false;
    while (acceptOne(isExhausted)) {
    }
  }
}

// ---- Health -------------------------------------------------------------------------------------

Health::Health() {
  AddMethod(new grpc::internal::RpcServiceMethod(
      "/grpc.health.v1.Health/Check", grpc::internal::RpcMethod::NORMAL_RPC,
      new grpc::internal::RpcMethodHandler<Health, grpc::ByteBuffer, grpc::ByteBuffer>(
          [](Health *health, grpc::ServerContext *, const grpc::ByteBuffer *request,
             grpc::ByteBuffer *response) { return health->check(*request, *response); },
          this)));
  AddMethod(new grpc::internal::RpcServiceMethod("/grpc.health.v1.Health/Watch",
                                                 grpc::internal::RpcMethod::SERVER_STREAMING,
                                                 nullptr)); // by Watcher
  MarkMethodRaw(WatchMethod);
}

// HealthCheckRequest { string service = 1; } and HealthCheckResponse { status = 1 } by hand.

bool Health::isKnown(const grpc::ByteBuffer &request) {
  grpc::Slice only;
  if (request.Length() > 0 && !request.TrySingleSlice(&only).ok() &&
      !request.DumpToSingleSlice(&only).ok())
    return false;
  std::string_view name(reinterpret_cast<const char *>(only.begin()), only.size());
  if (name.size() >= 2 && name[0] == 0x0a && size_t(name[1]) == name.size() - 2)
    name.remove_prefix(2);
  return name.empty() || name == "mlbridge.v1.Bridge";
}

grpc::ByteBuffer Health::answer(bool isServing) {
  const grpc::Slice status(isServing ? "\x08\x01" : "\x08\x02", 2);
  return {&status, 1};
}

grpc::ByteBuffer Health::unknownService() {
  const grpc::Slice status("\x08\x03", 2);
  return {&status, 1};
}

grpc::Status Health::check(const grpc::ByteBuffer &request, grpc::ByteBuffer &response) const {
  if (!isKnown(request))
    return {grpc::StatusCode::NOT_FOUND, "unknown service"};
  response = answer(isServing);
  return grpc::Status::OK;
}

// ---- Watcher ------------------------------------------------------------------------------------

void Watcher::request(const std::shared_ptr<ServerCore> &core) {
  if (core->stopping_)
    return;
  auto *watcher = new Watcher(core);
  core->watchers_.insert(watcher);
  watcher->context_.AsyncNotifyWhenDone(watcher->done_.tag()); // begins with the call
  core->health_.RequestAsyncServerStreaming(WatchMethod, &watcher->context_, &watcher->asked_,
                                            &watcher->call_, core->queue_.get(), core->queue_.get(),
                                            watcher->arrive_.begin());
}

void Watcher::finished(void (Watcher::*handler)(bool), bool ok) {
  const std::shared_ptr<ServerCore> core = core_; // outlives this
  const std::lock_guard<std::mutex> lock(core->mutex_);
  (this->*handler)(ok);
  if (--operations_ != 0)
    return;
  core->watchers_.erase(this);
  delete this;
}

void Watcher::onArrived(bool ok) {
  if (!ok) // the server stops
    return;
  isOpen_ = true;
  (void)done_.begin();
  request(core_);
  knows_ = Health::isKnown(asked_);
  if (core_->watchers_.size() > MostWatchers)
    return finish();
  tell();
  if (core_->stopping_)
    finish();
}

void Watcher::tell() {
  if (!isOpen_ || dead_ || finishing_)
    return;
  behind_ = writing_;
  if (writing_)
    return;
  writing_ = true;
  call_.Write(knows_ ? Health::answer(core_->health_.isServing) : Health::unknownService(),
              write_.begin());
}

void Watcher::onWritten(bool ok) {
  writing_ = false;
  if (!ok)
    return finish();
  if (behind_)
    tell();
}

void Watcher::finish() {
  if (!isOpen_ || dead_ || finishing_)
    return;
  finishing_ = true;
  call_.Finish({grpc::StatusCode::UNAVAILABLE, "the server does not watch this any more"},
               finish_.begin());
}

void Watcher::onDone(bool) { finish(); }

// ---- Signal -------------------------------------------------------------------------------------

// An eventfd is readable unless it is zero, and writable unless it is at its maximum.
Signal::Signal(Kind kind)
    : kind_(kind), descriptor_(::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)),
      ready_(kind == Kind::Writable) {}

void Signal::set(bool ready) {
  if (ready == ready_)
    return;
  ready_ = ready;
  if ((kind_ == Kind::Readable) == ready) {
    const uint64_t value = kind_ == Kind::Readable ? 1 : UINT64_MAX - 1;
    (void)!::write(descriptor_.get(), &value, sizeof value);
  } else {
    uint64_t waste;
    (void)!::read(descriptor_.get(), &waste, sizeof waste);
  }
}

// ---- ServerCore ---------------------------------------------------------------------------------

Expected<std::shared_ptr<ServerCore>> ServerCore::start(const Settings &settings) {
  const NoSignals guard;
  const std::shared_ptr<ServerCore> core(new ServerCore(settings));
  if (Status s = core->build(); !s)
    return s;
  request(core);
  const std::lock_guard<std::mutex> lock(core->mutex_);
  Watcher::request(core);
  return core;
}

Status ServerCore::build() {
  if (!arrived_.isValid())
    return Status(Code::LimitExceeded, describeErrno("make a descriptor", errno));
  if (Status s = acceptor_.listen(settings_); !s)
    return s;
  if (Status s = tryThreads(5); !s) // two of gRPC's own, two of ours, the library's
    return s;
  if (Status s = tryCredentials(settings_); !s)
    return s;
  grpc::ServerBuilder builder;
  setCommonArguments(settings_,
                     [&](const char *name, int value) { builder.AddChannelArgument(name, value); });
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS, 5000);
  // A peer that connects and says nothing, or opens calls without end, keeps nobody out.
  builder.AddChannelArgument(GRPC_ARG_SERVER_HANDSHAKE_TIMEOUT_MS, 5000);
  builder.AddChannelArgument(GRPC_ARG_MAX_CONNECTION_IDLE_MS, 60'000);
  builder.AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS, 1024);
  builder.SetMaxReceiveMessageSize(LargestMessage);
  builder.SetSyncServerOption(grpc::ServerBuilder::NUM_CQS, 1); // of reflection and health
  builder.SetSyncServerOption(grpc::ServerBuilder::MAX_POLLERS, 1);
  auto taker = builder.experimental().AddExternalConnectionAcceptor(
      grpc::ServerBuilder::experimental_type::ExternalConnectionType::FROM_FD,
      credentialsOf(settings_));
  builder.RegisterService(&service_);
  builder.RegisterService(&health_);
  queue_ = builder.AddCompletionQueue();
  server_ = builder.BuildAndStart();
  Status started(Code::Unavailable, "gRPC could not start a server");
  if (server_)
    started = acceptor_.start(std::move(taker));
  if (started.ok()) // made now, when it can still be refused
    started = startThread(drainer_, [this] {
      stopped_.get_future().wait();
      drain();
    });
  if (!started) {
    acceptor_.stop();
    if (server_)
      server_->Shutdown();
    queue_->Shutdown();
    drain();
    server_.reset();
    return started;
  }
  place_ = settings_.addresses.front().placeAt(acceptor_.port());
  return Status();
}

ServerCore::~ServerCore() = default;

void ServerCore::drive(Deadline deadline) {
  if (isForked()) { // nothing will ever happen here
    ::poll(nullptr, 0, earlier(deadline, Deadline::after(LingerAtStop)).pollTimeout());
    return;
  }
  void *tag;
  bool ok;
  // Events that happened together are told together.
  while (queue_->AsyncNext(&tag, &ok, timeOf(deadline)) == grpc::CompletionQueue::GOT_EVENT) {
    static_cast<Tag *>(tag)->finished(ok);
    deadline = Deadline::after(Duration::zero());
  }
}

void ServerCore::interrupt() {
  if (isForked() || interruption_.isSet.exchange(true))
    return;
  const std::lock_guard<std::mutex> lock(interruption_.mutex);
  interruption_.alarm.Set(queue_.get(), gpr_inf_past(GPR_CLOCK_MONOTONIC),
                          static_cast<Tag *>(&interruption_));
}

void ServerCore::drain() {
  void *tag;
  bool ok;
  while (queue_->Next(&tag, &ok)) {
    if (tag) {
      static_cast<Tag *>(tag)->finished(ok);
      continue;
    }
    // From stop. Only this thread starts operations now, so that none comes after the shutdown.
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      for (ServerStream *stream : streams_)
        stream->abandon();
      for (Watcher *watcher : watchers_)
        watcher->abandon();
    }
    queue_->Shutdown();
  }
}

/// Asks gRPC for the next call.
void ServerCore::request(const std::shared_ptr<ServerCore> &core) {
  const std::lock_guard<std::mutex> lock(core->mutex_);
  if (core->stopping_)
    return;
  auto *stream = new ServerStream(core);
  core->streams_.insert(stream);
  const std::lock_guard<std::mutex> own(stream->mutex_);
  core->service_.RequestConverse(&stream->context_, &stream->call_, core->queue_.get(),
                                 core->queue_.get(), stream->arrive_.begin());
}

ServerStream *ServerCore::accept() {
  ServerStream *stream;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (waiting_.empty())
      return nullptr;
    stream = waiting_.front();
    waiting_.pop_front();
    arrived_.set(!waiting_.empty());
  }
  stream->begin();
  return stream;
}

void ServerCore::refuseNew() {
  const std::lock_guard<std::mutex> lock(mutex_);
  draining_ = true;
  health_.isServing = false;
  for (Watcher *watcher : watchers_)
    watcher->tell();
}

void ServerCore::stop() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    stopping_ = true;
    for (Watcher *watcher : watchers_)
      watcher->finish();
  }
  while (ServerStream *stream = accept())
    stream->close();
  const NoSignals guard;
  acceptor_.stop();
  stopped_.set_value(); // what streams still have to send goes meanwhile
  server_->Shutdown(std::chrono::system_clock::now() + LingerAtStop);
  grpc::Alarm atOnce;
  atOnce.Set(queue_.get(), gpr_inf_past(GPR_CLOCK_MONOTONIC), nullptr);
  drainer_.join();
}

// ---- ServerStream -------------------------------------------------------------------------------

ServerStream::ServerStream(std::shared_ptr<ServerCore> core)
    : ByteStream(ChunkSize), core_(std::move(core)) {}

bool ServerStream::isAuthorized() const {
  if (core_->settings_.token.empty())
    return true;
  const auto &metadata = context_.client_metadata();
  const auto found = metadata.find("authorization");
  return found != metadata.end() &&
         isEqual({found->second.data(), found->second.size()}, "Bearer " + core_->settings_.token);
}

void ServerStream::onArrived(bool ok) {
  if (!ok) { // the server stops
    abandoned_ = true;
    return;
  }
  ServerCore::request(core_);
  if (!isAuthorized())
    return refuse(
        {grpc::StatusCode::UNAUTHENTICATED, "the token is missing or wrong (option token-file)"});
  if (!readable_.isValid() || !writable_.isValid())
    return refuse({grpc::StatusCode::RESOURCE_EXHAUSTED, "the server has no descriptors left"});
  {
    const std::lock_guard<std::mutex> lock(core_->mutex_);
    if (core_->draining_)
      return refuse({grpc::StatusCode::UNAVAILABLE, "the server is about to stop"});
    if (core_->waiting_.size() < MostWaiting && !core_->stopping_) {
      context_.AddInitialMetadata(AcceptedKey, AcceptedValue);
      call_.SendInitialMetadata(metadata_.begin());
      core_->waiting_.push_back(this);
      core_->arrived_.set(true);
      return;
    }
  }
  refuse({grpc::StatusCode::RESOURCE_EXHAUSTED, "too many compilers wait to be accepted"});
}

void ServerStream::refuse(const grpc::Status &why) {
  abandoned_ = true;
  finish(why);
}

/// Nothing is read ahead of the library's accepting it.
void ServerStream::begin() {
  const Lock lock(mutex_);
  if (dead_)
    return;
  open(call_, call_);
  startReading();
}

void ServerStream::onMetadata(bool) {} // if the call is broken, reading says so

void ServerStream::inputEnded() { end(Status(Code::Closed, "the compiler closed the connection")); }

void ServerStream::finish(const grpc::Status &status) {
  if (finishing_ || dead_)
    return;
  finishing_ = true;
  call_.Finish(status, finish_.begin());
}

void ServerStream::sentAll() {
  if (abandoned_)
    finish(grpc::Status::OK);
}

void ServerStream::onFinished(bool) { linger_.Cancel(); }

void ServerStream::onLingered(bool ok) {
  if (ok) // it was not cancelled
    context_.TryCancel();
}

void ServerStream::close() {
  {
    const Lock lock(mutex_);
    abandoned_ = true;
    if (!dead_) {
      linger_.Set(core_->queue_.get(), std::chrono::system_clock::now() + Linger,
                  lingered_.begin());
      lingering_ = unsentSize();
      if (!hasUnsent())
        finish(grpc::Status::OK);
      else if (core_->lingering_.fetch_add(lingering_) > MostLingering)
        context_.TryCancel();
      ignoreInput();
    }
    if (operations() != 0)
      return;
  }
  release();
}

/// The completion queue takes nothing more.
void ServerStream::abandon() {
  const Lock lock(mutex_);
  dead_ = true;
  linger_.Cancel();
  end(Status(Code::Closed, "the server stopped"));
}

void ServerStream::release() {
  const std::shared_ptr<ServerCore> core = core_;
  core->lingering_ -= lingering_;
  {
    const std::lock_guard<std::mutex> lock(core->mutex_);
    core->streams_.erase(this);
  }
  delete this;
}

} // namespace mlbridge::grpctransport
