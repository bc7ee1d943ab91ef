// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// One compiler's connection as the server sees it: handshake, streams, and the requests they carry.
// Everything here is guarded by the server's mutex unless said otherwise.
#ifndef MLBRIDGE_SERVER_SESSION_H
#define MLBRIDGE_SERVER_SESSION_H

#include "conversation/frame.h"
#include "conversation/messages.h"
#include "conversation/outbox.h"
#include "server/batching.h"
#include "server/stream.h"

#include <deque>
#include <map>
#include <mutex>
#include <set>

namespace mlbridge {

/// The state that sessions share.
struct SessionHost {
  ServerOptions options;
  ChosenSerDes messages; ///< of the user's own, if the server's address names them
  /// Those with events that wait; they take turns, so that none keeps the others from the policy.
  std::deque<std::shared_ptr<Session>> waiting;
  std::shared_ptr<std::atomic<uint64_t>> kept = std::make_shared<std::atomic<uint64_t>>(0);
  size_t handshakes = 0; ///< connections whose handshake is done
  bool isDraining = false;
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
  bool isHandshakeDone() const { return handshakeDone_; }
  bool hasUnsent() const { return !unsent_.empty(); }
  uint64_t unsentSize() const { return unsent_.size(); }
  /// The account of the memory that is kept for it.
  const std::shared_ptr<MemoryAccount> &account() const { return account_; }
  RequestPace pace;
  /// True if it may send a request now.
  bool mayAsk() const {
    return handshakeDone_ && !closed_ && (streams_.empty() || streams_.size() > pace.open());
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
  /// True if storage of what has been answered may be kept for what comes.
  bool maySpare() const;
  void sayGoodbye(std::string_view text);
  /// True if ending it now takes nothing from the compiler: no request waits or is being answered,
  /// and no episode is open that another server could not go on with.
  bool mayLeave() const;

  /// Closes the channel of a closed session. Its events may live on.
  void dropChannel();
  /// True if nobody waits for this answer any more. Forgets what it knew of it.
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
  Status enqueue(const FrameHeader &header, QueuedEvent &&event);
  Status admitDriver(const FrameHeader &header, EventKind kind);
  Status onEpisode(const FrameHeader &header);
  ServerStream *find(uint32_t id);
  void push(QueuedEvent &&event);
  void pushEpisode(QueuedEvent &&event);
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
  const std::shared_ptr<MemoryAccount> account_;
  Charge itself_, receiving_, unsentCharge_;
  Buffer control_;
  std::shared_ptr<InputStorage> incoming_; ///< of the request whose payload is being read
  std::list<QueuedEvent> events_;          ///< that wait for the policy
  std::list<QueuedEvent> spare_;           ///< memory for the next one, or nothing
  size_t queuedRequests_ = 0;              ///< of those
  size_t framesLeft_ = 0;                  ///< of this turn
  Deadline::Clock::time_point turnEnd_;
  Backlog unsent_;
  uint64_t unsentControl_ = 0; ///< at most so much of it: pongs, statistics, errors
  bool handshakeDone_ = false;
  bool closed_ = false;
  const SerDes *serdes_ = nullptr;
  uint64_t peerLimit_ = 0;
  std::map<uint32_t, std::shared_ptr<ServerStream>> streams_;
  ServerStream *lastFound_ = nullptr;
  std::set<std::pair<uint32_t, uint64_t>> cancelled_;
};

} // namespace mlbridge

#endif
