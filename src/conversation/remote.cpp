// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "conversation/remote.h"
#include "conversation/message_tensors.h"
#include "conversation/retry.h"
#include "core/message.h"
#include "core/nearest.h"
#include "core/unfit_servers.h"
#include "core/uri_options.h"

#include <algorithm>
#include <cstdio>
#include <cstring>

namespace mlbridge {

namespace {

/// "0.25 s".
std::string inSeconds(Duration duration) {
  char text[32];
  std::snprintf(text, sizeof text, "%.3g s", std::chrono::duration<double>(duration).count());
  return text;
}

class RemoteModel final : public ModelBackend, public std::enable_shared_from_this<RemoteModel> {
public:
  RemoteModel(Uri uri, RemoteAddress address, Duration deadline, std::shared_ptr<Circuit> circuit)
      : uri(std::move(uri)), serdes(*address.serdes), circuit(std::move(circuit)),
        retries(address.retries), transport_(*address.transport),
        servers_(transport_.servers(this->uri)), connecting_(std::move(address.connecting)),
        deadline_(deadline) {
    connecting_.hasOthers = servers_ > 1;
  }

  Status open(Deadline until) {
    Expected<std::shared_ptr<Connection>> connection =
        reach(earlier(Deadline::after(deadline_), until));
    if (!connection)
      return connection.status();
    // The first server's description stays true: one that comes later must say the same.
    connecting_.wait = Duration::zero();
    welcome_ = (*connection)->welcome();
    server_ = (*connection)->server();
    metadata_ = welcome_.metadata;
    if (servers_ > 1) {
      metadata_["mlbridge.server"] = server_;
      metadata_["mlbridge.servers"] = std::to_string(servers_);
    }
    opened_ = true;
    return Status();
  }

  uint32_t servers() const override { return servers_; }
  uint32_t countServers(Deadline deadline) const override {
    return transport_.countServers(uri, deadline);
  }
  std::string server() const override { return server_; }
  void rest(Duration time) override {
    if (time == Duration::zero())
      return;
    const Deadline::Clock::time_point since = Deadline::Clock::now();
    if (const std::shared_ptr<Connection> usable = current())
      usable->idle(time);
    else
      std::this_thread::sleep_for(time);
    // So that a compiler of many modules does not look for it that long in each.
    circuit->recordTimeout(since, makeError(Code::Mismatch, "no server has a model that fits"));
  }
  /// True if another server may go on with an episode.
  bool isStateless() const { return welcome_.stateless; }

  const Metadata &metadata() const override { return metadata_; }
  const Signature *signature() const override {
    return welcome_.signature ? &*welcome_.signature : nullptr;
  }
  Expected<const Signature *> signatureOf(std::string_view agent) const override {
    if (welcome_.agents.empty())
      return signature();
    if (const int known = findAgent(welcome_.agents, agent); known >= 0)
      return &welcome_.agents[static_cast<size_t>(known)].signature;
    const std::vector<std::string_view> names = namesOf(Span<const AgentSpec>(welcome_.agents));
    return makeError(Code::NotFound, "the server has no agent '", agent, "'",
                     suggestion(agent, names, "agents"));
  }
  Expected<std::unique_ptr<RunnerBackend>>
  newRunner(const Signature &bound, const CallContext &context, Duration deadline) override;

  Expected<Metadata> statistics() override {
    const Deadline deadline = Deadline::after(deadline_);
    Expected<std::shared_ptr<Connection>> connection = reach(deadline);
    if (!connection)
      return connection.status();
    return (*connection)->statistics(deadline);
  }

  /// The connection, made anew if the last one broke and the circuit lets that through.
  Expected<std::shared_ptr<Connection>> reach(Deadline deadline) {
    if (std::shared_ptr<Connection> usable = current())
      return usable;
    Expected<Deadline> admitted = circuit->admit(deadline);
    if (!admitted)
      return admitted.status();
    return connect(*admitted);
  }
  /// The same for who has been let through. One thread shakes hands; the others wait for it, each
  /// by its own deadline, and then try themselves if it was in vain.
  Expected<std::shared_ptr<Connection>> connect(Deadline deadline) {
    const Deadline::Clock::time_point since = Deadline::Clock::now();
    std::shared_ptr<Connection> old; // closing it may take time, so not with the lock
    {
      std::unique_lock<std::mutex> lock(mutex_);
      while (handshakeRunning_ && !deadline.hasPassed())
        waitFor(handshakeEnded_, lock, deadline);
      if (connection_ && connection_->isUsable())
        return connection_;
      if (!handshakeRunning_) {
        handshakeRunning_ = true;
        old.swap(connection_);
      } else {
        lock.unlock();
        Status late(Code::DeadlineExceeded,
                    "another thread's handshake with the server did not finish in time");
        circuit->recordTimeout(since, late);
        return late;
      }
    }
    if (servers_ == 1) // another one keeps the way to the others open
      old.reset();
    Expected<std::shared_ptr<Connection>> fresh = connectToNext(deadline);
    if (!fresh)
      circuit->recordTimeout(since, fresh.status());
    else
      circuit->reached();
    if (!fresh && opened_) // opening says it itself
      fresh = fresh.status().withContext(join("'", uri.toString(), "'"));
    const std::lock_guard<std::mutex> lock(mutex_);
    handshakeRunning_ = false;
    if (fresh)
      connection_ = *fresh;
    handshakeEnded_.notify_all();
    return fresh;
  }

  const Uri uri;
  const SerDes &serdes;
  const std::shared_ptr<Circuit> circuit;
  const uint32_t retries;

private:
  /// Asks one server after another until one answers and serves the model that was opened.
  Expected<std::shared_ptr<Connection>> connectToNext(Deadline deadline) {
    if (servers_ == 1)
      return checked(Connection::open(transport_, uri, connecting_, deadline));
    UnfitServers unfit(deadline);
    Status mismatch;
    // Kept until the next one is asked, or that might be the same server again.
    std::shared_ptr<Connection> asked;
    while (true) {
      std::shared_ptr<Connection> next;
      Expected<std::shared_ptr<Connection>> fresh =
          Connection::open(transport_, uri, connecting_, deadline, &next);
      asked = std::move(next);
      const bool answered = bool(fresh);
      const std::string server = asked ? asked->server() : std::string();
      fresh = checked(std::move(fresh));
      if (fresh)
        return fresh;
      if (fresh.status().code() == Code::Mismatch && mismatch)
        mismatch = fresh.status();
      std::optional<Duration> pause;
      if (!server.empty()) // else connecting asked all of them
        pause = unfit.add(server, fresh.status(), [&] { return countServers(deadline); });
      if (!pause)
        return mismatch ? fresh.status() : mismatch;
      if (answered)
        asked->idle(*pause);
      else
        std::this_thread::sleep_for(*pause);
    }
  }
  /// The connection, if its server can go on for the one that the model was opened from.
  Expected<std::shared_ptr<Connection>>
  checked(Expected<std::shared_ptr<Connection>> connection) const {
    if (connection && opened_)
      if (Status s = compare((*connection)->welcome()); !s) {
        const std::string server = (*connection)->server();
        return server.empty() ? s : s.withContext(server);
      }
    return connection;
  }
  /// The reason why a server can't go on for the one that the model was opened from.
  Status compare(const Welcome &now) const {
    const auto differs = [](const auto &...what) {
      return makeError(Code::Mismatch, "the server now serves a different model; open it again (",
                       what..., ")");
    };
    const auto text = [](const Welcome &welcome) {
      return welcome.signature        ? welcome.signature->toString()
             : welcome.agents.empty() ? std::string("any signature")
                                      : std::string("several agents");
    };
    if (now.signature != welcome_.signature)
      return differs("its signature is ", text(now), " instead of ", text(welcome_));
    if (now.agents != welcome_.agents)
      return differs("its agents or their signatures differ");
    if (const std::string *key = differingProperty(now.metadata, welcome_.metadata))
      return differs("the metadata property '", *key, "' differs");
    if (now.stateless != welcome_.stateless)
      return differs("one of the two keeps a state between questions, the other doesn't");
    return Status();
  }
  std::shared_ptr<Connection> current() {
    const std::lock_guard<std::mutex> lock(mutex_);
    return connection_ && connection_->isUsable() ? connection_ : nullptr;
  }

  const Transport &transport_;
  const uint32_t servers_; ///< at most
  std::string server_;     ///< the first one
  Connection::Options connecting_;
  const Duration deadline_;
  Welcome welcome_;
  Metadata metadata_; ///< of the welcome, and which server that was
  bool opened_ = false;
  std::mutex mutex_; ///< of what follows
  std::condition_variable handshakeEnded_;
  bool handshakeRunning_ = false; ///< a thread does
  std::shared_ptr<Connection> connection_;
};

class RemoteRunner final : public RunnerBackend {
public:
  RemoteRunner(std::shared_ptr<RemoteModel> model, const Signature &bound, CallContext context,
               Duration deadline)
      : model_(std::move(model)), bound_(bound), context_(std::move(context)), deadline_(deadline) {
  }
  ~RemoteRunner() override { leave(); }

  Status open() {
    if (Status s = rejoin(); !s)
      return s;
    if (Status s =
            inputs_.prepareFor(bound_.inputs, model_->serdes, Side::Inputs, connection_->arena());
        !s)
      return s;
    if (Status s = outputs_.prepareFor(bound_.outputs, model_->serdes, Side::Outputs); !s)
      return s;
    return inputs_.makeRoom(message_);
  }

  TensorView input(size_t index) override {
    return inputs_.view(index, message_.data() + FrameHeaderSize);
  }
  Expected<TensorView> resize(size_t index, Span<const int64_t> shape) override {
    return inputs_.prepare(index, shape);
  }
  TensorView output(size_t index) override {
    if (outputs_.layout() && slot_.reply.size() != outputs_.layout()->size)
      return {bound_.outputs[index].type, nullptr, 0, {}};
    return outputs_.view(index, slot_.reply.data());
  }

  Status evaluate(Duration left) override {
    tries_ = 0;
    return retry_(
        std::max(model_->retries, mostMoves()), left, *model_->circuit,
        [this](Duration left, Deadline::Clock::time_point now) { return attempt(left, now); },
        [this](const Status &status) { return mayRepeat(status); });
  }

  Status beginEpisode(std::string_view episode, std::string_view unit) override {
    inEpisode_ = false;
    if (!connection_ || !connection_->isUsable())
      if (Status s = rejoin(); !s)
        return s;
    inEpisode_ = true;
    hasAnswers_ = false;
    episode_ = EpisodeBegin{std::string(episode), std::string(unit)};
    return queue(FrameKind::EpisodeBegin, episode_);
  }
  Status reward(double value) override { return queue(FrameKind::Reward, RewardMessage{value}); }
  void truncateEpisode() override { truncated_ = true; }
  Status endEpisode(const Status &outcome) override {
    const bool truncated = truncated_;
    truncated_ = false;
    if (!inEpisode_)
      return Status();
    inEpisode_ = false;
    if (!connection_->isUsable())
      return connection_->failure();
    if (Status s = queue(FrameKind::EpisodeEnd, EpisodeEnd{outcome, request_, truncated}); !s)
      return s;
    // Nobody waits for this, so nobody should wait for it to be taken either.
    return connection_->post(slot_, queued_);
  }
  uint64_t droppedEvents() const override { return queued_.dropped() + slot_.dropped; }

private:
  /// A request that was refused was not begun. One whose connection ended may have been answered,
  /// which matters only within an episode: a policy may count its steps.
  bool mayRepeat(const Status &status) {
    const bool isLost = status.code() == Code::Closed || status.code() == Code::Unavailable;
    if (tries_++ < model_->retries && (status.code() == Code::Busy || (isLost && !inEpisode_)))
      return true;
    const bool isAnswer = connection_ && connection_->isUsable();
    return isLost && !isAnswer && model_->servers() > 1 && mayMove();
  }
  /// Several servers are not asked without end for the same answer.
  uint32_t mostMoves() const {
    const uint32_t servers = model_->servers();
    return servers > 1 ? 2 * servers : 0;
  }
  /// True if another server may get the question that this one lost: it has no episode that it
  /// doesn't know the beginning of, or has none to know.
  bool mayMove() const { return !inEpisode_ || !hasAnswers_ || model_->isStateless(); }
  Status attempt(Duration left, Deadline::Clock::time_point since) {
    Expected<Deadline> admitted = model_->circuit->admit(Deadline::after(left, since));
    if (!admitted)
      return admitted.status();
    if (!connection_ || !connection_->isUsable()) {
      if (inEpisode_ && (model_->servers() == 1 || !mayMove()))
        return connection_ ? connection_->failure().withContext(
                                 "the connection was lost during the episode")
                           : makeError(Code::Closed, "the connection was lost during the episode");
      leave();
      if (Status s = join(model_->connect(*admitted)); !s)
        return s;
      inputs_.useArena(connection_->arena());
      if (inEpisode_)
        if (Status s = queue(FrameKind::EpisodeBegin, episode_); !s)
          return s;
    }
    if (!inputs_.layout()) {
      if (Status s = message_.resize(FrameHeaderSize); !s)
        return s;
      if (Status s = inputs_.encode(message_, external_); !s)
        return s;
    }
    FrameHeader header{FrameKind::Request, slot_.id, ++request_, wireTime(*admitted, since)};
    header.length = message_.size() - FrameHeaderSize;
    for (const Codec::ExternalSpan &span : external_)
      header.length += span.bytes;
    const bool inMemory = writeMemoryPlaces();
    if (const uint64_t limit = connection_->welcome().maxMessage; header.length > limit)
      return makeError(Code::LimitExceeded, "the request has ", header.length,
                       " bytes, the server accepts at most ", limit);
    if (inMemory) {
      header.flags |= FlagInMemory;
      header.length = message_.size() - FrameHeaderSize + places_.size();
    }
    encode(header, message_.data());
    iovec parts[Connection::MaxParts];
    int count = 0;
    const auto add = [&](const void *data, size_t size) {
      if (size)
        parts[count++] = {const_cast<void *>(data), size};
    };
    add(queued_.data(), queued_.size());
    size_t at = 0;
    if (inMemory) {
      add(message_.data(), at = FrameHeaderSize);
      add(places_.data(), places_.size());
    }
    for (const Codec::ExternalSpan &span :
         inMemory ? Span<const Codec::ExternalSpan>() : external_) {
      add(message_.data() + at, span.offset - at);
      add(span.data, span.bytes);
      at = span.offset;
    }
    add(message_.data() + at, message_.size() - at);
    bool sent;
    Status status =
        connection_->exchange(slot_, header.request, parts, count, *admitted, sent, patience(left));
    if (sent)
      queued_.clear();
    else if (!connection_->isUsable())
      queued_.drop(); // else they go before the next request
    if (status.code() == Code::DeadlineExceeded || !connection_->isUsable())
      model_->circuit->recordTimeout(since, status);
    else
      model_->circuit->answered();
    if (status.code() == Code::DeadlineExceeded)
      return makeError(status.code(), status.message(), " (", inSeconds(left), ")");
    if (!status)
      return status;
    hasAnswers_ = true;
    return outputs_.decode(slot_.reply.span(), "the reply");
  }
  /// An episode that only this server knows is worth waiting for.
  Duration patience(Duration left) const {
    return model_->servers() > 1 && mayMove() ? patienceOf(left) : Duration::max();
  }

  /// Writes where all external spans lie; false if some aren't in the memory of this connection.
  bool writeMemoryPlaces() {
    if (external_.empty())
      return false;
    places_.clear();
    const uint64_t count = external_.size();
    bool ok = places_.append(&count, sizeof count).ok();
    for (const Codec::ExternalSpan &span : external_) {
      const ArenaSlot *slot = inputs_.slotAt(span.data);
      if (!slot)
        return false;
      const MemoryPlace place{span.offset - FrameHeaderSize, slot->offset, slot->capacity,
                              span.bytes};
      ok = ok && places_.append(&place, sizeof place);
    }
    return ok;
  }
  Status rejoin() {
    leave();
    return join(model_->reach(Deadline::after(deadline_)));
  }
  /// Opens a stream on a connection that works. The frame goes out with the first request.
  Status join(const Expected<std::shared_ptr<Connection>> &connection) {
    if (!connection)
      return connection.status();
    connection_ = *connection;
    request_ = 0;
    queued_.drop();
    return connection_->openStream(slot_, {bound_, context_}, queued_);
  }
  void leave() {
    if (connection_)
      connection_->removeStream(slot_);
    connection_.reset();
  }
  /// Appends a frame to what is sent before the next request, so that it costs no system call.
  template <typename Message> Status queue(FrameKind kind, const Message &message) {
    return queued_.addMessage({kind, slot_.id}, message);
  }

  const std::shared_ptr<RemoteModel> model_;
  const Signature bound_;
  const CallContext context_;
  const Duration deadline_;
  MessageTensors inputs_, outputs_;
  std::shared_ptr<Connection> connection_;
  StreamSlot slot_;
  Buffer message_;                            ///< header and payload of the request
  std::vector<Codec::ExternalSpan> external_; ///< inputs that are sent from where they are
  Buffer places_;                             ///< or said to be there
  Outbox queued_;                             ///< frames that go before it
  uint64_t request_ = 0;
  bool inEpisode_ = false, truncated_ = false;
  bool hasAnswers_ = false; ///< in this episode
  EpisodeBegin episode_;    ///< for a server that goes on with it
  uint32_t tries_ = 0;      ///< of this evaluation
  Retry retry_;
};

Expected<std::unique_ptr<RunnerBackend>>
RemoteModel::newRunner(const Signature &bound, const CallContext &context, Duration deadline) {
  auto runner = std::make_unique<RemoteRunner>(shared_from_this(), bound, context, deadline);
  if (Status s = runner->open(); !s)
    return s;
  return std::unique_ptr<RunnerBackend>(std::move(runner));
}

} // namespace

Status RemoteAddress::read(const Uri &uri, Span<const std::string_view> own) {
  constexpr std::string_view Common[] = {"wait", "max-message", "retries"};
  std::vector<std::string_view> known(own.begin(), own.end());
  known.insert(known.end(), std::begin(Common), std::end(Common));
  Expected<const Transport *> found = transportFor(uri.scheme);
  if (!found)
    return found.status();
  transport = *found;
  for (const auto &[key, value] : uri.options)
    if (std::find(known.begin(), known.end(), key) == known.end() && !transport->understands(key))
      return unknownOption(uri.scheme, key, known);
  Expected<Duration> wait = uri.duration("wait", Duration::zero());
  Expected<uint64_t> message = uri.number("max-message", connecting.maxMessage);
  Expected<uint64_t> welcome = uri.number("max-welcome", connecting.maxWelcome);
  Expected<uint64_t> repeated = uri.number("retries", 0);
  for (const Status &status :
       {wait.status(), message.status(), welcome.status(), repeated.status()})
    if (!status)
      return status;
  connecting.wait = *wait;
  connecting.maxMessage = *message;
  connecting.maxWelcome = *welcome;
  retries = static_cast<uint32_t>(std::min<uint64_t>(*repeated, 1000));
  return Status();
}

Expected<RemoteAddress> remoteAddress(const Uri &uri) {
  constexpr std::string_view Own[] = {"serdes", "proto", "request", "reply", "max-welcome"};
  RemoteAddress address;
  if (Status s = address.read(uri, Own); !s)
    return s;
  Expected<ChosenSerDes> serdes = serdesOf(uri);
  if (!serdes)
    return serdes.status();
  address.connecting.serdes = serdes->name;
  address.serdes = serdes->serdes;
  return address;
}

Expected<std::shared_ptr<ModelBackend>> openRemote(const Uri &uri, const Opening &options) {
  Expected<RemoteAddress> address = remoteAddress(uri);
  if (!address)
    return address.status();
  auto model = std::make_shared<RemoteModel>(uri, std::move(*address), deadlineOf(options),
                                             circuitOf(uri, options));
  if (Status s = model->open(options.until); !s)
    return s;
  return std::shared_ptr<ModelBackend>(std::move(model));
}

} // namespace mlbridge
