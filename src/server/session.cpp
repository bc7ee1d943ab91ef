// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "server/session.h"

#include "core/backend.h"
#include "core/bind.h"
#include "core/message.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <new>

namespace mlbridge {

namespace {

// Before the handshake a peer is trusted with little.
constexpr uint64_t HelloLimit = 64 << 10;
constexpr size_t MaxCancelled = 4096;
constexpr size_t MostPong = 64;
// A turn ends after this time, whatever the frames are; less, if many have theirs.
constexpr Duration TurnTime = std::chrono::microseconds(100);
// The cost of a connection by itself: what it reads into, its channel, what the system keeps.
constexpr uint64_t CostOfConnection = 80 << 10;
// Control messages leave no more behind.
constexpr size_t MostControlKept = 16 << 10;

uint64_t nextStorageId() {
  static std::atomic<uint64_t> last{0};
  return ++last;
}

size_t tensorsOf(const Signature &signature) {
  return signature.inputs.size() + signature.outputs.size();
}

} // namespace

Session::Session(std::unique_ptr<Channel> channel, uint64_t number, SessionHost &host)
    : channel_(std::move(channel)), number_(number), host_(host),
      account_(std::make_shared<MemoryAccount>(host.kept)) {
  reader_.setLimit(HelloLimit);
  itself_.set(account_, CostOfConnection);
}

// ---- reading ------------------------------------------------------------------------------------

void Session::onReadable(size_t ofMany) {
  wasCut = false;
  if (closed_)
    return;
  // All that have their turn share what one may have.
  constexpr size_t FewestFrames = 4;
  constexpr uint64_t FewestBytes = 32 << 10;
  const size_t share = std::max<size_t>(ofMany, 1);
  framesLeft_ = std::max<size_t>(host_.options.turnFrames / share, FewestFrames);
  const auto now = share > 1 ? Deadline::Clock::now() : host_.now; // others had theirs since
  turnEnd_ = now + TurnTime / static_cast<int64_t>(std::min<size_t>(share, 4));
  reader_.setMostBytes(std::max<uint64_t>(host_.options.turnBytes / share, FewestBytes));
  const uint64_t before = reader_.bytesRead();
  bool progress = false;
  Status status;
  try {
    status = reader_.pump(*channel_, *this, progress);
  } catch (const std::bad_alloc &) {
    status = Status(Code::LimitExceeded, "the server has no memory left");
  }
  host_.statistics.bytesIn += reader_.bytesRead() - before;
  wasCut = reader_.wasCut() && !closed_;
  if (status || closed_)
    return;
  wasCut = false;
  if (status.code() == Code::Closed)
    close(status);
  else if (status.code() == Code::LimitExceeded)
    evict(status);
  else
    refuse(status);
}

bool Session::mayGoOn() {
  return !closed_ && --framesLeft_ > 0 && Deadline::Clock::now() < turnEnd_;
}

Expected<Buffer *> Session::payloadOf(const FrameHeader &header) {
  const bool isMessage = header.kind == FrameKind::Request || header.kind == FrameKind::Step;
  if (Status s = checkLength(header, isMessage ? UINT64_MAX : host_.options.maxControl); !s)
    return s;
  Buffer *payload = &control_;
  if (isMessage && handshakeDone_) {
    ServerStream *stream = find(header.stream);
    if (stream && stream->spareInputs && stream->spareInputs.use_count() == 1) {
      incoming_ = std::move(stream->spareInputs);
    } else {
      incoming_ = std::make_shared<InputStorage>();
      incoming_->id = nextStorageId();
    }
    payload = &incoming_->message;
    if (header.length > payload->capacity()) {
      incoming_->id = nextStorageId();
      *payload = Buffer(); // what was in it is not needed while more is taken
    }
    incoming_->charge.set(account_, incoming_->bytes() + (payload->capacity() ? 0 : header.length));
  } else if (header.length > payload->capacity()) {
    receiving_.set(account_, header.length);
  }
  payload->clear();
  if (Status s = checkMemory(); !s)
    return s;
  return payload;
}

Status Session::checkMemory() {
  const uint64_t limit = host_.options.maxConnectionMemory;
  if (account_->bytes() <= limit || (dropSpares() && account_->bytes() <= limit))
    return Status();
  return makeError(Code::LimitExceeded, "the server would keep ", account_->bytes(),
                   " bytes for this connection, the limit is ", limit);
}

bool Session::maySpare() const {
  return account_->bytes() <= host_.options.maxConnectionMemory / 2 &&
         account_->allBytes() <= host_.options.maxMemory / 2;
}

bool Session::dropSpares() {
  bool had = false;
  for (auto &[id, stream] : streams_) {
    had |= stream->spareInputs || stream->spareOutputs;
    stream->spareInputs.reset();
    stream->spareOutputs.reset();
  }
  return had;
}

Status Session::frame(const FrameHeader &header) {
  const Status status = onFrame(header);
  if (control_.capacity() > MostControlKept)
    control_ = Buffer();
  receiving_.set(0);
  return status;
}

Status Session::onFrame(const FrameHeader &header) {
  if (header.kind == FrameKind::Hello)
    return onHello();
  if (!handshakeDone_)
    return Status(Code::Protocol, "the first frame must be a hello");
  switch (header.kind) {
  case FrameKind::OpenStream:
    return onOpenStream(header);
  case FrameKind::Request:
  case FrameKind::Step:
    return onRequest(header);
  case FrameKind::Reset:
    return onReset(header);
  case FrameKind::EpisodeBegin:
  case FrameKind::Reward:
  case FrameKind::EpisodeEnd:
    return onEpisode(header);
  case FrameKind::Cancel:
    if (cancelled_.size() >= MaxCancelled)
      cancelled_.clear();
    cancelled_.insert({header.stream, header.request});
    return Status();
  case FrameKind::CloseStream:
    if (ServerStream *stream = find(header.stream)) {
      endStream(*stream, Status(Code::Closed, "the compiler closed the stream"));
      stream->over = true;
      lastFound_ = nullptr;
      streams_.erase(header.stream);
    }
    return Status();
  case FrameKind::Ping:
    if (Buffer frame; frame.resize(FrameHeaderSize) &&
                      frame.append(control_.data(), std::min(control_.size(), MostPong)))
      (void)sendFrame(FrameKind::Pong, 0, header.request, frame);
    return Status();
  case FrameKind::Statistics:
    (void)sendMessage(FrameKind::Statistics, 0, header.request,
                      StatisticsMessage{host_.statisticsNow().toMetadata()});
    return Status();
  case FrameKind::Bye:
    close(Status(Code::Closed, "the compiler said goodbye"));
    return Status();
  case FrameKind::Pong:
  case FrameKind::Error: // the compiler could not do what Reset or Step asked
  case FrameKind::Reply:
    return Status();
  default:
    return unexpectedFrame(header);
  }
}

Expected<const SerDes *> Session::serdesFor(const std::string &name) const {
  if (host_.messages.hasMessages && name == host_.messages.name)
    return host_.messages.serdes;
  const size_t colon = name.find(':');
  if (colon == std::string::npos)
    return serdesNamed(name);
  if (host_.messages.hasMessages)
    return Status(Code::Mismatch, "the compiler's messages are '" + name + "', the server's are '" +
                                      host_.messages.name + "'");
  return makeError(Code::Unsupported, "the compiler sends messages of its own, '", name,
                   "', and the server was started without their .proto file: give its address the "
                   "options ?serdes=",
                   name.substr(0, colon), "&proto=FILE&request=MESSAGE&reply=MESSAGE");
}

Status Session::onHello() {
  Expected<Hello> hello = decode<Hello>(control_.span());
  if (!hello)
    return hello.status();
  if (hello->major != ProtocolMajor)
    return makeError(Code::Protocol, "the server speaks version ", ProtocolMajor,
                     " of the protocol, the compiler speaks version ", hello->major);
  Expected<const SerDes *> serdes = serdesFor(hello->serdes);
  if (!serdes)
    return serdes.status();
  // Over FIFOs a new compiler may come before the end of the last one was seen.
  endAllStreams(Status(Code::Closed, "another compiler took over the FIFOs"));
  if (!handshakeDone_ && host_.handshakes >= host_.options.maxConnections) {
    refuse(Status(Code::Busy, "the server has its maximum of " +
                                  std::to_string(host_.options.maxConnections) + " connections"));
    return Status();
  }
  if (host_.isDraining) {
    refuse(Status(Code::Busy, "the server is about to stop"));
    return Status();
  }
  serdes_ = *serdes;
  peerLimit_ = hello->maxMessage;
  host_.handshakes += !handshakeDone_;
  handshakeDone_ = true;
  pace.begin(host_.now);
  reader_.setLimit(host_.options.maxMessage);
  Welcome welcome;
  welcome.nonce = hello->nonce;
  welcome.maxMessage = host_.options.maxMessage;
  welcome.serdes = hello->serdes;
  welcome.software = softwareName();
  welcome.signature = host_.options.signature;
  welcome.metadata = host_.options.metadata;
  welcome.agents = host_.options.agents;
  welcome.stateless = host_.options.stateless;
  if (host_.options.environment)
    welcome.role = ServerRole::Environment;
  // One that is too long is an error, since the compiler would wait for it in vain.
  const Status sent = sendMessage(FrameKind::Welcome, 0, 0, welcome);
  return sent.code() == Code::LimitExceeded ? Status(Code::Protocol, sent.message()) : sent;
}

Status Session::onOpenStream(const FrameHeader &header) {
  if (header.stream == 0 || streams_.count(header.stream))
    return makeError(Code::Protocol, "open-stream: stream ", header.stream,
                     header.stream ? " is open already" : " is reserved for the connection");
  const auto refuse = [&](const Status &why) { return decline(header.stream, 0, why); };
  if (streams_.size() >= host_.options.maxStreams)
    return refuse(Status(Code::Busy, "the connection has its maximum of " +
                                         std::to_string(host_.options.maxStreams) + " streams"));
  size_t mostTensors = host_.options.maxTensors;
  if (host_.options.signature)
    mostTensors = std::max(mostTensors, tensorsOf(*host_.options.signature));
  for (const AgentSpec &agent : host_.options.agents)
    mostTensors = std::max(mostTensors, tensorsOf(agent.signature));
  Expected<OpenStream> open = decode<OpenStream>(control_.span(), mostTensors);
  if (!open)
    return open.status().code() == Code::LimitExceeded ? refuse(open.status()) : open.status();
  const Signature *own = host_.options.signature ? &*host_.options.signature : nullptr;
  if (const std::vector<AgentSpec> &agents = host_.options.agents; !agents.empty()) {
    const int agent = findAgent(agents, open->context.agent);
    if (agent < 0)
      return refuse(
          Status(Code::NotFound, "the server has no agent '" + open->context.agent + "'"));
    own = &agents[static_cast<size_t>(agent)].signature;
  }
  if (own) {
    Expected<std::shared_ptr<const Binding>> binding = bindSignature(open->signature, own);
    if (!binding)
      return refuse(binding.status());
    if (open->signature.inputs.size() != own->inputs.size())
      return refuse(makeError(Code::Mismatch, "the inputs differ from those of the model: ",
                              open->signature.toString(), " instead of ", own->toString()));
  }
  auto stream = std::make_shared<ServerStream>();
  stream->id = header.stream;
  stream->signature = std::move(open->signature);
  if (host_.options.environment) // which is told the action and answers with an observation
    std::swap(stream->signature.inputs, stream->signature.outputs);
  stream->charge.set(account_, costOf(stream->signature) + control_.size());
  stream->context = std::make_shared<CallContext>(std::move(open->context));
  // An environment is asked with the outputs of its signature.
  const Side side = host_.options.environment ? Side::Outputs : Side::Inputs;
  const Side other = host_.options.environment ? Side::Inputs : Side::Outputs;
  Expected<std::unique_ptr<Codec>> inputs = serdes_->newCodec(side, stream->signature.inputs);
  if (!inputs)
    return refuse(inputs.status());
  Expected<std::unique_ptr<Codec>> outputs = serdes_->newCodec(other, stream->signature.outputs);
  if (!outputs)
    return refuse(outputs.status());
  // Made for each request whatever the policy does, so it must fit into what may be sent.
  uint64_t replySize = 0;
  const uint64_t limit =
      peerLimit_ ? std::min(host_.options.maxMessage, peerLimit_) : host_.options.maxMessage;
  for (const TensorSpec &spec : stream->signature.outputs)
    if (!spec.isDynamic()) {
      const std::optional<size_t> count = spec.count();
      replySize += !count || *count > limit ? limit + 1 : costOf(spec.type, *count);
    }
  if (replySize > limit)
    return refuse(makeError(Code::LimitExceeded, "the outputs take more than ", limit,
                            " bytes, the limit of a message: ", stream->signature.toString()));
  stream->inputs = std::move(*inputs);
  stream->outputs = std::move(*outputs);
  ++host_.statistics.streams;
  streams_[header.stream] = std::move(stream);
  return checkMemory();
}

ServerStream *Session::find(uint32_t id) {
  if (lastFound_ && lastFound_->id == id)
    return lastFound_;
  const auto found = streams_.find(id);
  return found == streams_.end() ? nullptr : lastFound_ = found->second.get();
}

Status Session::onRequest(const FrameHeader &header) {
  std::shared_ptr<InputStorage> inputs = std::move(incoming_);
  const bool inMemory = header.kind == FrameKind::Request && header.flags & FlagInMemory;
  if (inputs->inMemory != inMemory) {
    inputs->inMemory = inMemory;
    inputs->id = nextStorageId();
    inputs->views.clear();
  }
  if (inMemory)
    inputs->arena = channel_->arena();
  QueuedEvent event;
  event.kind = header.kind == FrameKind::Step ? EventKind::Step : EventKind::Request;
  event.inputs = std::move(inputs);
  return enqueue(header, std::move(event));
}

Status Session::onReset(const FrameHeader &header) {
  Expected<ResetMessage> reset = decode<ResetMessage>(control_.span());
  if (!reset)
    return reset.status();
  QueuedEvent event;
  event.kind = EventKind::Reset;
  event.seed = reset->seed;
  if (const ServerStream *stream = find(header.stream)) {
    event.charge.set(account_, reset->unit.size());
    event.context = std::make_shared<CallContext>(
        CallContext{stream->context->agent, stream->context->episode, std::move(reset->unit)});
  }
  return enqueue(header, std::move(event));
}

/// Queues something that is to be answered.
Status Session::enqueue(const FrameHeader &header, QueuedEvent &&event) {
  ServerStream *stream = find(header.stream);
  if (!stream) // refused before; the compiler knows or will
    return Status();
  ++host_.statistics.requests;
  const auto refuse = [&](Code code, const std::string &why) {
    return decline(header.stream, header.request, Status(code, why));
  };
  if ((event.kind == EventKind::Request) == host_.options.environment)
    return refuse(Code::Unsupported,
                  host_.options.environment
                      ? "an environment is served here: it takes reset and step"
                      : "a model is served here: it takes requests, it cannot be driven");
  // A connection that has nothing waiting may always ask.
  if (queuedRequests_ && (host_.queuedRequests >= host_.options.maxQueued ||
                          queuedRequests_ >= host_.options.maxStreams))
    return refuse(Code::Busy,
                  std::to_string(host_.queuedRequests) + " requests are waiting for the policy");
  if (host_.options.environment)
    if (Status admitted = admitDriver(header, event.kind); !admitted) {
      host_.statistics.refused += admitted.code() == Code::Busy;
      (void)sendError(header.stream, header.request, admitted);
      return Status();
    }
  const uint64_t bytes = event.inputs ? event.inputs->message.size() : 0;
  if (host_.queuedRequests && host_.queuedBytes + bytes > host_.options.maxQueuedBytes)
    return refuse(Code::Busy, std::to_string(host_.queuedBytes) +
                                  " bytes of requests are waiting for the policy");
  event.stream = streams_[header.stream];
  event.request = header.request;
  event.deadline = fromWireTime(header.left, host_.now);
  event.arrived = host_.now;
  if (host_.isGathering && pace.isAwaited())
    pace.recordSuccess();
  pace.requested(host_.now, host_.patience);
  push(std::move(event));
  return checkMemory();
}

/// One connection at a time drives an environment, with a stream for each of its agents.
Status Session::admitDriver(const FrameHeader &header, EventKind kind) {
  const std::shared_ptr<ServerStream> driver = host_.driver.lock();
  const bool inEpisode = driver && driver->inEpisode;
  const bool isOurs = driver && find(driver->id) == driver.get();
  if (inEpisode && !isOurs)
    return Status(Code::Busy, "another driver is in the middle of an episode");
  if (kind == EventKind::Step)
    return inEpisode ? Status()
                     : Status(Code::InvalidArgument, "a step without an episode: reset first");
  if (driver)
    driver->inEpisode = false;
  const std::shared_ptr<ServerStream> &stream = streams_[header.stream];
  stream->inEpisode = true;
  host_.driver = stream;
  return Status();
}

Status Session::onEpisode(const FrameHeader &header) {
  ServerStream *stream = find(header.stream);
  if (!stream)
    return Status();
  QueuedEvent event;
  event.stream = streams_[header.stream];
  if (header.kind == FrameKind::EpisodeBegin) {
    Expected<EpisodeBegin> begin = decode<EpisodeBegin>(control_.span());
    if (!begin)
      return begin.status();
    event.kind = EventKind::EpisodeBegin;
    // A text that is not stated stays as it was.
    auto context = std::make_shared<CallContext>(*lastContext(*stream));
    event.charge.set(account_, begin->episode.size() + begin->unit.size());
    setEpisode(*context, begin->episode, begin->unit);
    event.context = std::move(context);
    stream->inEpisode = true;
  } else if (header.kind == FrameKind::Reward) {
    Expected<RewardMessage> reward = decode<RewardMessage>(control_.span());
    if (!reward)
      return reward.status();
    event.kind = EventKind::Reward;
    event.reward = reward->value;
  } else {
    Expected<EpisodeEnd> end = decode<EpisodeEnd>(control_.span());
    if (!end)
      return end.status();
    event.kind = EventKind::EpisodeEnd;
    event.outcome = std::move(end->outcome);
    event.truncated = end->truncated;
    event.charge.set(account_, event.outcome.message().size());
    stream->inEpisode = false;
  }
  pushEpisode(std::move(event));
  return checkMemory();
}

bool Session::takeCancelled(const ServerStream &stream, uint64_t request) {
  return closed_ || stream.over ||
         (!cancelled_.empty() && cancelled_.erase({stream.id, request}) != 0);
}

void Session::dropChannel() { channel_.reset(); }

void Session::close(const Status &why) {
  if (closed_)
    return;
  closed_ = true;
  host_.handshakes -= handshakeDone_;
  forget(false); // nobody waits for answers
  endAllStreams(why);
  unsent_.clear();
  unsentControl_ = 0;
  control_ = Buffer();
  incoming_.reset(); // the reader reads no more
  for (Charge *charge : {&itself_, &receiving_, &unsentCharge_})
    charge->set(0);
}

} // namespace mlbridge
