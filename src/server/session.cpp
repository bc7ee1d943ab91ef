// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "server/session.h"

#include "runner/bind.h"

#include <atomic>
#include <cstring>
#include <unistd.h>

namespace mlbridge {

namespace {

// Before the handshake a peer is trusted with little.
constexpr uint64_t HelloLimit = 1 << 20;
// What a compiler that does not read may keep waiting; then it is given up.
constexpr uint64_t UnsentSlack = 16 << 20;
constexpr size_t MaxCancelled = 4096;

uint64_t nextStorageId() {
  static std::atomic<uint64_t> last{0};
  return ++last;
}

} // namespace

TensorView viewInMessage(const TensorSpec &spec, const Codec &codec, size_t index,
                         uint8_t *payload) {
  return {spec.type, payload + codec.layout()->offsets[index], *spec.count(), spec.shape};
}

Session::Session(std::unique_ptr<Channel> channel, uint64_t number, SessionHost &host)
    : channel_(std::move(channel)), number_(number), host_(host) {
  reader_.setLimit(HelloLimit);
}

// ---- reading ------------------------------------------------------------------------------------

void Session::onReadable() {
  if (closed_)
    return;
  const uint64_t before = reader_.bytesRead();
  bool progress = false;
  const Status status = reader_.pump(*channel_, *this, progress);
  host_.statistics.bytesIn += reader_.bytesRead() - before;
  if (status || closed_)
    return;
  if (status.code() == Code::Closed)
    close(status);
  else
    refuse(status);
}

Expected<Buffer *> Session::payloadOf(const FrameHeader &header) {
  if ((header.kind != FrameKind::Request && header.kind != FrameKind::Step) || !shaken_) {
    control_.clear();
    return &control_;
  }
  ServerStream *stream = find(header.stream);
  if (stream && stream->spareInputs && stream->spareInputs.use_count() == 1) {
    incoming_ = std::move(stream->spareInputs);
  } else {
    incoming_ = std::make_shared<InputStorage>();
    incoming_->id = nextStorageId();
  }
  if (header.length > incoming_->message.capacity())
    incoming_->id = nextStorageId();
  incoming_->message.clear();
  return &incoming_->message;
}

Status Session::frame(const FrameHeader &header) {
  if (header.kind == FrameKind::Hello)
    return onHello();
  if (!shaken_)
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
    return Status::ok();
  case FrameKind::CloseStream:
    if (ServerStream *stream = find(header.stream)) {
      endStream(*stream, Status(Code::Closed, "the compiler closed the stream"));
      stream->over = true;
      lastFound_ = nullptr;
      streams_.erase(header.stream);
    }
    return Status::ok();
  case FrameKind::Ping: {
    Buffer frame;
    if (Status s = frame.resize(FrameHeaderSize); !s)
      return s;
    if (Status s = frame.append(control_.data(), std::min<size_t>(control_.size(), 64)); !s)
      return s;
    (void)sendFrame(FrameKind::Pong, 0, header.request, frame);
    return Status::ok();
  }
  case FrameKind::Statistics:
    return sendStatistics(header.request);
  case FrameKind::Bye:
    close(Status(Code::Closed, "the compiler said goodbye"));
    return Status::ok();
  case FrameKind::Pong:
  case FrameKind::Error: // the compiler could not do what Reset or Step asked
  case FrameKind::Reply:
    return Status::ok();
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
  return Status(Code::Unsupported,
                "the compiler sends messages of its own, '" + name +
                    "', and the server was started without their .proto file: give its address the "
                    "options ?serdes=" +
                    name.substr(0, colon) + "&proto=FILE&request=MESSAGE&reply=MESSAGE");
}

Status Session::onHello() {
  Expected<Hello> hello = decodeHello(control_.span());
  if (!hello)
    return hello.status();
  if (hello->major != ProtocolMajor)
    return Status(Code::Protocol, "the server speaks version " + std::to_string(ProtocolMajor) +
                                      " of the protocol, not version " +
                                      std::to_string(hello->major));
  Expected<const SerDes *> serdes = serdesFor(hello->serdes);
  if (!serdes)
    return serdes.status();
  // Over FIFOs a new compiler may come before the end of the last one was seen.
  endAllStreams(Status(Code::Closed, "another compiler took over the FIFOs"));
  serdes_ = *serdes;
  peerLimit_ = hello->maxMessage;
  shaken_ = true;
  reader_.setLimit(host_.options.maxMessage);
  Welcome welcome;
  welcome.nonce = hello->nonce;
  welcome.maxMessage = host_.options.maxMessage;
  welcome.serdes = hello->serdes;
  welcome.software = softwareName();
  welcome.signature = host_.options.signature;
  welcome.metadata = host_.options.metadata;
  welcome.agents = host_.options.agents;
  if (host_.options.environment)
    welcome.role = ServerRole::Environment;
  Buffer frame;
  if (Status s = frame.resize(FrameHeaderSize); !s)
    return s;
  if (Status s = encode(welcome, frame); !s)
    return s;
  (void)sendFrame(FrameKind::Welcome, 0, 0, frame);
  return Status::ok();
}

Status Session::onOpenStream(const FrameHeader &header) {
  if (header.stream == 0 || streams_.count(header.stream))
    return Status(Code::Protocol, "open-stream: stream " + std::to_string(header.stream) +
                                      (header.stream ? " is open already" : " is the connection"));
  const auto refuseStream = [&](const Status &why) {
    ++host_.statistics.refused;
    (void)sendError(header.stream, 0, why);
    return Status::ok();
  };
  Expected<OpenStream> open = decodeOpenStream(control_.span());
  if (!open)
    return open.status();
  if (streams_.size() >= host_.options.maxStreams)
    return refuseStream(Status(Code::Busy, "the server takes " +
                                               std::to_string(host_.options.maxStreams) +
                                               " streams of one connection"));
  const Signature *own = host_.options.signature ? &*host_.options.signature : nullptr;
  if (const std::vector<AgentSpec> &agents = host_.options.agents; !agents.empty()) {
    const int agent = findAgent(agents, open->agent);
    if (agent < 0)
      return refuseStream(Status(Code::NotFound, "the server has no agent '" + open->agent + "'"));
    own = &agents[static_cast<size_t>(agent)].signature;
  }
  if (own) {
    Expected<std::shared_ptr<const Binding>> binding = bindSignature(open->signature, own);
    if (!binding)
      return refuseStream(binding.status());
    if (open->signature.inputs.size() != own->inputs.size())
      return refuseStream(Status(Code::Mismatch, "the stream has other inputs than the model: " +
                                                     open->signature.toString() + " against " +
                                                     own->toString()));
  }
  auto stream = std::make_shared<ServerStream>();
  stream->id = header.stream;
  stream->signature = std::move(open->signature);
  if (host_.options.environment) // which is told the action and answers with an observation
    std::swap(stream->signature.inputs, stream->signature.outputs);
  stream->agent = std::move(open->agent);
  stream->episode = std::move(open->episode);
  stream->context = std::move(open->context);
  // An environment is asked with the outputs of its signature.
  const Side side = host_.options.environment ? Side::Outputs : Side::Inputs;
  const Side other = host_.options.environment ? Side::Inputs : Side::Outputs;
  Expected<std::unique_ptr<Codec>> inputs = serdes_->newCodec(side, stream->signature.inputs);
  if (!inputs)
    return refuseStream(inputs.status());
  Expected<std::unique_ptr<Codec>> outputs = serdes_->newCodec(other, stream->signature.outputs);
  if (!outputs)
    return refuseStream(outputs.status());
  // Made for each request whatever the policy does, so it must fit into what may be sent.
  uint64_t replySize = 0;
  const uint64_t limit =
      peerLimit_ ? std::min(host_.options.maxMessage, peerLimit_) : host_.options.maxMessage;
  for (const TensorSpec &spec : stream->signature.outputs)
    if (!spec.isDynamic()) {
      const std::optional<size_t> count = spec.count();
      replySize += !count || *count > limit ? limit + 1 : *count * sizeOf(spec.type);
    }
  if (replySize > limit)
    return refuseStream(
        Status(Code::LimitExceeded, "the outputs take more than the " + std::to_string(limit) +
                                        " bytes of a message: " + stream->signature.toString()));
  stream->inputs = std::move(*inputs);
  stream->outputs = std::move(*outputs);
  ++host_.statistics.streams;
  streams_[header.stream] = std::move(stream);
  return Status::ok();
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
  Expected<ResetMessage> reset = decodeReset(control_.span());
  if (!reset)
    return reset.status();
  QueuedEvent event;
  event.kind = EventKind::Reset;
  event.context = std::move(reset->context);
  event.seed = reset->seed;
  return enqueue(header, std::move(event));
}

/// What is to be answered.
Status Session::enqueue(const FrameHeader &header, QueuedEvent event) {
  ServerStream *stream = find(header.stream);
  if (!stream) // refused before; the compiler knows or will
    return Status::ok();
  ++host_.statistics.requests;
  if ((event.kind == EventKind::Request) == host_.options.environment) {
    ++host_.statistics.refused;
    (void)sendError(header.stream, header.request,
                    Status(Code::Unsupported,
                           host_.options.environment
                               ? "an environment is served here: it takes reset and step"
                               : "a model is served here: it takes requests, it cannot be driven"));
    return Status::ok();
  }
  if (host_.queuedRequests >= host_.options.maxQueued) {
    ++host_.statistics.refused;
    (void)sendError(header.stream, header.request,
                    Status(Code::Busy, std::to_string(host_.queuedRequests) +
                                           " requests are waiting for the policy"));
    return Status::ok();
  }
  if (host_.options.environment)
    if (Status admitted = admitDriver(header, event.kind); !admitted) {
      host_.statistics.refused += admitted.code() == Code::Busy;
      (void)sendError(header.stream, header.request, admitted);
      return Status::ok();
    }
  const uint64_t bytes = event.inputs ? event.inputs->message.size() : 0;
  if (host_.queuedRequests && host_.queuedBytes + bytes > host_.options.maxQueuedBytes) {
    ++host_.statistics.refused;
    (void)sendError(header.stream, header.request,
                    Status(Code::Busy, std::to_string(host_.queuedBytes) +
                                           " bytes of requests are waiting for the policy"));
    return Status::ok();
  }
  host_.queuedBytes += bytes;
  event.session = shared_from_this();
  event.stream = streams_[header.stream];
  event.request = header.request;
  event.deadline = fromWireTime(header.left);
  event.arrived = host_.now;
  ++host_.queuedRequests;
  host_.queue.push_back(std::move(event));
  return Status::ok();
}

/// One connection at a time drives an environment, with a stream for each of its agents.
Status Session::admitDriver(const FrameHeader &header, EventKind kind) {
  const std::shared_ptr<ServerStream> driver = host_.driver.lock();
  const bool inEpisode = driver && driver->inEpisode;
  const bool isOurs = driver && find(driver->id) == driver.get();
  if (inEpisode && !isOurs)
    return Status(Code::Busy, "another driver is in the middle of an episode");
  if (kind == EventKind::Step)
    return inEpisode ? Status::ok()
                     : Status(Code::InvalidArgument, "a step without an episode: reset first");
  if (driver)
    driver->inEpisode = false;
  const std::shared_ptr<ServerStream> &stream = streams_[header.stream];
  stream->inEpisode = true;
  host_.driver = stream;
  return Status::ok();
}

Status Session::onEpisode(const FrameHeader &header) {
  ServerStream *stream = find(header.stream);
  if (!stream)
    return Status::ok();
  if (host_.queue.size() >= 4 * size_t(host_.options.maxQueued))
    return Status(Code::LimitExceeded, std::to_string(host_.queue.size()) + " events are waiting");
  QueuedEvent event;
  event.session = shared_from_this();
  event.stream = streams_[header.stream];
  if (header.kind == FrameKind::EpisodeBegin) {
    Expected<EpisodeBegin> begin = decodeEpisodeBegin(control_.span());
    if (!begin)
      return begin.status();
    event.kind = EventKind::EpisodeBegin;
    event.episode = std::move(begin->episode);
    event.context = std::move(begin->context);
    stream->inEpisode = true;
  } else if (header.kind == FrameKind::Reward) {
    Expected<double> reward = decodeReward(control_.span());
    if (!reward)
      return reward.status();
    event.kind = EventKind::Reward;
    event.reward = *reward;
  } else {
    Expected<EpisodeEnd> end = decodeEpisodeEnd(control_.span());
    if (!end)
      return end.status();
    event.kind = EventKind::EpisodeEnd;
    event.outcome = std::move(end->outcome);
    event.truncated = end->truncated;
    stream->inEpisode = false;
  }
  host_.queue.push_back(std::move(event));
  return Status::ok();
}

void Session::endStream(ServerStream &stream, const Status &why) {
  // An environment is also told when its driver leaves between episodes.
  if (!stream.inEpisode && !host_.options.environment)
    return;
  if (const std::shared_ptr<ServerStream> driver = host_.driver.lock();
      driver && driver->inEpisode && driver.get() != &stream && find(driver->id) != driver.get())
    return; // another one drives
  stream.inEpisode = false;
  QueuedEvent event;
  event.kind = EventKind::EpisodeEnd;
  event.session = shared_from_this();
  event.stream = streams_[stream.id];
  event.outcome = why;
  host_.queue.push_back(std::move(event));
}

void Session::endAllStreams(const Status &why) {
  for (auto &[id, stream] : streams_) {
    endStream(*stream, why);
    stream->over = true;
  }
  lastFound_ = nullptr;
  streams_.clear();
  cancelled_.clear();
}

Status Session::sendStatistics(uint64_t request) {
  Buffer frame;
  if (Status status = frame.resize(FrameHeaderSize); !status)
    return status;
  if (Status status = encodeMap(host_.statistics.toMetadata(), frame); !status)
    return status;
  (void)sendFrame(FrameKind::Statistics, 0, request, frame);
  return Status::ok();
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
  endAllStreams(why);
}

// ---- writing ------------------------------------------------------------------------------------

void Session::refuse(const Status &why) {
  ++host_.statistics.refused;
  Buffer frame;
  if (frame.resize(FrameHeaderSize)) {
    if (why.code() == Code::Busy && !shaken_) {
      BusyMessage busy;
      busy.text = why.message();
      if (encode(busy, frame))
        (void)sendFrame(FrameKind::Busy, 0, 0, frame);
    } else if (encodeError(why, frame)) {
      (void)sendFrame(FrameKind::Error, 0, 0, frame);
    }
  }
  close(why);
}

void Session::sayGoodbye(std::string_view text) {
  Buffer frame;
  if (!closed_ && shaken_ && frame.resize(FrameHeaderSize) && encodeText(text, frame))
    (void)sendFrame(FrameKind::Bye, 0, 0, frame);
  close(Status(Code::Cancelled, "the server stopped"));
}

Status Session::sendReward(uint32_t stream, double reward) {
  Buffer frame;
  if (Status s = frame.resize(FrameHeaderSize); !s)
    return s;
  if (Status s = encodeReward(reward, frame); !s)
    return s;
  return sendFrame(FrameKind::Reward, stream, 0, frame);
}

Status Session::sendTurn(uint32_t stream, const TurnMessage &turn) {
  Buffer frame;
  if (Status s = frame.resize(FrameHeaderSize); !s)
    return s;
  if (Status s = encode(turn, frame); !s)
    return s;
  return sendFrame(FrameKind::Turn, stream, 0, frame);
}

std::shared_ptr<ServerStream> Session::streamOf(std::string_view agent) const {
  for (const auto &[id, stream] : streams_)
    if (stream->agent == agent)
      return stream;
  return nullptr;
}

Status Session::sendError(uint32_t stream, uint64_t request, const Status &why) {
  Buffer frame;
  if (Status s = frame.resize(FrameHeaderSize); !s)
    return s;
  if (Status s = encodeError(why, frame); !s)
    return s;
  return sendFrame(FrameKind::Error, stream, request, frame);
}

Status Session::sendFrame(FrameKind kind, uint32_t stream, uint64_t request, Buffer &frame,
                          uint16_t flags) {
  FrameHeader header;
  header.kind = kind;
  header.flags = flags;
  header.stream = stream;
  header.request = request;
  header.length = frame.size() - FrameHeaderSize;
  if (peerLimit_ && header.length > peerLimit_)
    return Status(Code::LimitExceeded, "the answer has " + std::to_string(header.length) +
                                           " bytes, the compiler accepts " +
                                           std::to_string(peerLimit_));
  encode(header, frame.data());
  return send(frame.data(), frame.size());
}

Status Session::send(const uint8_t *bytes, size_t size) {
  if (closed_)
    return Status(Code::Closed, "the compiler is gone");
  size_t taken = 0;
  if (unsent_.empty()) {
    const iovec part{const_cast<uint8_t *>(bytes), size};
    Expected<size_t> n = channel_->write(&part, 1);
    if (!n) {
      close(n.status());
      return n.status();
    }
    taken = *n;
  }
  host_.statistics.bytesOut += size;
  if (taken == size)
    return Status::ok();
  if (unsent_.size() - unsentFrom_ > host_.options.maxMessage + UnsentSlack) {
    close(Status(Code::Closed, "the compiler does not read"));
    return Status(Code::Closed, "the compiler does not read what it asked for");
  }
  if (unsentFrom_ > unsent_.size() / 2) {
    std::memmove(unsent_.data(), unsent_.data() + unsentFrom_, unsent_.size() - unsentFrom_);
    (void)unsent_.resize(unsent_.size() - unsentFrom_); // smaller: no memory is needed
    unsentFrom_ = 0;
  }
  return unsent_.append(bytes + taken, size - taken);
}

void Session::onWritable() {
  while (!closed_ && !unsent_.empty()) {
    const iovec part{unsent_.data() + unsentFrom_, unsent_.size() - unsentFrom_};
    Expected<size_t> n = channel_->write(&part, 1);
    if (!n)
      return close(n.status());
    if (*n == 0)
      return;
    unsentFrom_ += *n;
    if (unsentFrom_ == unsent_.size()) {
      unsent_.clear();
      unsentFrom_ = 0;
    }
  }
}

} // namespace mlbridge
