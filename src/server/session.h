// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// One compiler's connection as the server sees it: handshake, streams, and the requests they carry.
// Everything here is guarded by the server's mutex unless said otherwise.
#ifndef MLBRIDGE_SERVER_SESSION_H
#define MLBRIDGE_SERVER_SESSION_H

#include "conversation/frame.h"
#include "conversation/messages.h"
#include "conversation/outbox.h"
#include "serdes/serdes.h"
#include <mlbridge/server.h>

#include <atomic>
#include <deque>
#include <list>
#include <map>
#include <mutex>
#include <set>

namespace mlbridge {

/// The bytes that are kept for one connection, and those for all. Thread-safe.
class Account {
public:
  explicit Account(std::shared_ptr<std::atomic<uint64_t>> all) : all_(std::move(all)) {}
  uint64_t bytes() const { return bytes_.load(std::memory_order_relaxed); }
  uint64_t allBytes() const { return all_->load(std::memory_order_relaxed); }
  void change(uint64_t from, uint64_t to) {
    bytes_.fetch_add(to - from, std::memory_order_relaxed); // wraps for what becomes less
    all_->fetch_add(to - from, std::memory_order_relaxed);
  }

private:
  std::atomic<uint64_t> bytes_{0};
  const std::shared_ptr<std::atomic<uint64_t>> all_;
};

/// A part of an account, for as long as it lives.
class Charge {
public:
  Charge() = default;
  Charge(Charge &&other) noexcept { swap(other); }
  Charge &operator=(Charge &&other) noexcept {
    Charge fresh(std::move(other));
    swap(fresh);
    return *this;
  }
  ~Charge() { set(0); }

  void set(const std::shared_ptr<Account> &account, uint64_t bytes) {
    if (account_ != account) {
      set(0);
      account_ = account;
    }
    set(bytes);
  }
  void set(uint64_t bytes) {
    if (account_ && bytes != bytes_)
      account_->change(bytes_, bytes);
    bytes_ = account_ ? bytes : 0;
  }
  uint64_t bytes() const { return bytes_; }

private:
  void swap(Charge &other) noexcept {
    std::swap(account_, other.account_);
    std::swap(bytes_, other.bytes_);
  }

  std::shared_ptr<Account> account_;
  uint64_t bytes_ = 0;
};

/// What a decoded string takes besides its bytes, here and as an object of Python.
inline constexpr uint64_t CostOfString = 96;

/// What so many elements take when they are decoded.
inline uint64_t costOf(ElementType type, uint64_t count) {
  return count * (type == ElementType::String ? CostOfString : sizeOf(type));
}

/// What a stream with this signature takes.
uint64_t costOf(const Signature &signature);

class Session;

/// The bytes of one request and what was decoded from them. Shared with whoever holds the inputs;
/// used again for the next request of the stream when nobody does.
struct InputStorage {
  Buffer message;
  std::vector<Tensor> tensors;   ///< of what is not read in place
  std::vector<TensorView> views; ///< empty where the message has a fixed layout
  std::vector<Shape> shapes;     ///< of the views
  bool inMemory = false;         ///< large tensors of this request lie in the arena
  std::shared_ptr<Arena> arena;
  std::vector<std::shared_ptr<ArenaView>> mapped; ///< its parts that requests lay in
  uint64_t id = 0;                                ///< new whenever an address may have changed
  std::vector<uint64_t> decoded;                  ///< bytes that the tensors took at most
  Charge charge;                                  ///< of all this
  uint64_t bytes() const;
  void resize(size_t count) {
    tensors.resize(count);
    views.resize(count);
    shapes.resize(count);
  }
};

/// The buffers of one answer; kept by the stream between requests.
struct OutputStorage {
  Buffer frame;                ///< header and, where it has a fixed layout, payload
  std::vector<Tensor> tensors; ///< otherwise
  Charge charge;
};

struct QueuedEvent;

struct ServerStream {
  uint32_t id = 0;
  Signature signature;
  std::shared_ptr<const CallContext> context; ///< shared with events; replaced, never changed
  Charge charge;
  std::vector<std::list<QueuedEvent>::iterator> events; ///< that wait and take no answer
  std::unique_ptr<Codec> inputs, outputs;
  uint64_t step = 0;
  bool inEpisode = false;
  bool over = false; ///< its numbers may belong to another stream by now
  std::shared_ptr<InputStorage> spareInputs;
  std::unique_ptr<OutputStorage> spareOutputs;
};

/// Whether somebody waits for an answer.
inline bool isAsked(EventKind kind) {
  return kind == EventKind::Request || kind == EventKind::Reset || kind == EventKind::Step;
}

/// What waits for the policy.
struct QueuedEvent {
  EventKind kind = EventKind::Request;
  std::shared_ptr<Session> session; ///< once it was taken out of that one's queue
  std::shared_ptr<ServerStream> stream;
  uint64_t request = 0;
  Deadline deadline;
  std::shared_ptr<InputStorage> inputs;
  double reward = 0;
  uint64_t seed = 0;
  Status outcome;
  Deadline::Clock::time_point arrived;
  bool truncated = false;
  /// The stream's from its turn on; of Reset and EpisodeBegin only.
  std::shared_ptr<const CallContext> context;
  Charge charge;
};

/// When a connection asks: what a server that gathers a batch goes by.
class Asking {
public:
  using Time = Deadline::Clock::time_point;
  /// It may ask from now on.
  void begin(Time now) { since_ = now; }
  /// A request has come. `patience`: what batches wait.
  void asked(Time now, Duration patience) {
    most_ = std::max(most_, ++open_);
    if (now - since_ <= patience)
      owed_ -= owed_ != 0;
  }
  /// One is answered, or given up.
  void answered(Time now) {
    --open_;
    since_ = now;
  }
  /// A batch has waited for it in vain: it is not waited for until it has asked promptly, each time
  /// more often.
  void waitedInVain() {
    most_ = std::max<uint32_t>(open_, 1);
    owed_ = penalty_ = std::min<uint32_t>(2 * penalty_ + 1, MostOwed);
  }
  /// A batch has waited for it, and it has asked.
  void waitedWell() { penalty_ /= 2; }
  /// Requests that wait or are being answered.
  uint32_t open() const { return open_; }
  /// Whether another one is to be expected soon.
  bool isAwaited() const { return open_ < most_ && owed_ == 0; }

private:
  static constexpr uint32_t MostOwed = 1023;
  uint32_t open_ = 0, most_ = 1, owed_ = 0, penalty_ = 0;
  Time since_; ///< when the last was answered
};

/// What sessions share.
struct SessionHost {
  ServerOptions options;
  ChosenSerDes messages; ///< of the user's own, if the server's address names them
  /// Those with events that wait; they take turns, so that none keeps the others from the policy.
  std::deque<std::shared_ptr<Session>> waiting;
  std::shared_ptr<std::atomic<uint64_t>> kept = std::make_shared<std::atomic<uint64_t>>(0);
  size_t shaken = 0; ///< connections that shook hands
  size_t queuedRequests = 0;
  uint64_t queuedBytes = 0; ///< of their messages
  ServerStatistics statistics;
  std::weak_ptr<ServerStream> driver; ///< of an environment: who reset it last
  Deadline::Clock::time_point now;    ///< when the input that is handled was found
  Duration patience{0};               ///< with which a batch was gathered last
  bool isGathering = false;           ///< one is waiting for more
  std::mutex mutex;

  ServerStatistics statisticsNow() {
    statistics.bytesKept = *kept;
    return statistics;
  }
  bool hasEvents() const { return !waiting.empty(); }
  /// The next one; there is one.
  QueuedEvent takeEvent();
};

class Session final : public std::enable_shared_from_this<Session>, private FrameReader::Target {
public:
  Session(std::unique_ptr<Channel> channel, uint64_t number, SessionHost &host);

  uint64_t number() const { return number_; }
  Channel &channel() { return *channel_; }
  bool isClosed() const { return closed_; }
  bool isShaken() const { return shaken_; }
  bool hasUnsent() const { return !unsent_.empty(); }
  uint64_t unsentSize() const { return unsent_.size(); }
  /// What is kept for it.
  const std::shared_ptr<Account> &account() const { return account_; }
  Asking asking;
  /// Whether it may send a request now.
  bool mayAsk() const {
    return shaken_ && !closed_ && (streams_.empty() || streams_.size() > asking.open());
  }
  /// For the loop: whether it waits until more can be sent.
  bool awaitsWriting = false;
  /// For the loop: whether its descriptors tell of nothing at the moment.
  bool isAwake = false;
  /// For the loop: whether more may be there than the last turn allowed, and when that was.
  bool wasCut = false;
  uint64_t lastTurn = 0;

  /// Reads and handles what is there, one of so many that have their turn. Afterwards isClosed()
  /// may be true.
  void onReadable(size_t ofMany);
  /// Sends on what the channel did not take at once.
  void onWritable();
  /// Answers a Busy or Error frame for the whole connection and closes it.
  void refuse(const Status &why);
  /// The same for going beyond a limit, which is counted. What waits is forgotten.
  void evict(const Status &why);
  /// Gives back storage that is only kept to be used again. Whether there was any.
  bool dropSpares();
  /// Whether storage of what has been answered may be kept for what comes.
  bool maySpare() const;
  void sayGoodbye(std::string_view text);

  /// Closes the channel of a closed session. Its events may live on.
  void dropChannel();
  /// Whether nobody waits for this answer any more. Forgets what it knew of it.
  bool takeCancelled(const ServerStream &stream, uint64_t request);
  /// Frame header in the first FrameHeaderSize bytes, payload behind it. Errors: Closed,
  /// LimitExceeded.
  Status sendFrame(FrameKind kind, uint32_t stream, uint64_t request, Buffer &frame,
                   uint16_t flags = 0);
  template <typename Message>
  Status sendMessage(FrameKind kind, uint32_t stream, uint64_t request, const Message &message) {
    Buffer frame;
    if (Status s = frame.resize(FrameHeaderSize); !s)
      return s;
    if (Status s = encode(message, frame); !s)
      return s;
    return sendFrame(kind, stream, request, frame);
  }
  Status sendError(uint32_t stream, uint64_t request, const Status &why) {
    return sendMessage(FrameKind::Error, stream, request, why);
  }
  /// The stream of an agent on this connection; null if there is none.
  std::shared_ptr<ServerStream> streamOf(std::string_view agent) const;
  /// Says why a stream or request is not taken, and counts it. Ok: the connection goes on.
  Status decline(uint32_t stream, uint64_t request, const Status &why);
  bool hasEvents() const { return !events_.empty(); }
  QueuedEvent takeEvent();
  /// After a charge: within what one connection may have, spare storage given back if need be.
  Status checkMemory();
  /// So many bytes may be charged still, as far as this connection goes.
  bool hasRoomFor(uint64_t bytes) const {
    return account_->bytes() + bytes <= host_.options.maxConnectionMemory;
  }

private:
  Expected<Buffer *> payloadOf(const FrameHeader &header) override;
  Status frame(const FrameHeader &header) override;
  bool mayGoOn() override;
  Status onFrame(const FrameHeader &header);
  Status onHello();
  Expected<const SerDes *> serdesFor(const std::string &name) const;
  Status onOpenStream(const FrameHeader &header);
  Status onRequest(const FrameHeader &header);
  Status onReset(const FrameHeader &header);
  Status enqueue(const FrameHeader &header, QueuedEvent event);
  Status admitDriver(const FrameHeader &header, EventKind kind);
  Status onEpisode(const FrameHeader &header);
  ServerStream *find(uint32_t id);
  void push(QueuedEvent event);
  void pushEpisode(QueuedEvent event);
  static const std::shared_ptr<const CallContext> &lastContext(const ServerStream &stream);
  /// Takes an event out of what waits.
  QueuedEvent extract(std::list<QueuedEvent>::iterator at);
  /// Forgets what waits: requests, or everything.
  void forget(bool everything);
  void endStream(ServerStream &stream, const Status &why);
  void endAllStreams(const Status &why);
  void close(const Status &why);
  Status send(Buffer &frame, bool isControl);

  std::unique_ptr<Channel> channel_;
  const uint64_t number_;
  SessionHost &host_;
  FrameReader reader_;
  const std::shared_ptr<Account> account_;
  Charge itself_, receiving_, unsentCharge_;
  Buffer control_;
  std::shared_ptr<InputStorage> incoming_; ///< of the request whose payload is being read
  std::list<QueuedEvent> events_;          ///< that wait for the policy
  size_t queuedRequests_ = 0;              ///< of those
  size_t framesLeft_ = 0;                  ///< of this turn
  Deadline::Clock::time_point turnEnd_;
  Backlog unsent_;
  uint64_t unsentControl_ = 0; ///< at most so much of it: pongs, statistics, errors
  bool shaken_ = false;
  bool closed_ = false;
  const SerDes *serdes_ = nullptr;
  uint64_t peerLimit_ = 0;
  std::map<uint32_t, std::shared_ptr<ServerStream>> streams_;
  ServerStream *lastFound_ = nullptr;
  std::set<std::pair<uint32_t, uint64_t>> cancelled_;
};

/// The views of a stream's input or output number `index` in a message of fixed layout.
TensorView viewInMessage(const TensorSpec &spec, const Codec &codec, size_t index,
                         uint8_t *payload);

} // namespace mlbridge

#endif
