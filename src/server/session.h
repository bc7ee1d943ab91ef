// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// One compiler's connection as the server sees it: handshake, streams, and the requests they carry.
// Everything here is guarded by the server's mutex unless said otherwise.
#ifndef MLBRIDGE_SERVER_SESSION_H
#define MLBRIDGE_SERVER_SESSION_H

#include "conversation/frame_reader.h"
#include "conversation/messages.h"
#include "serdes/serdes.h"
#include <mlbridge/server.h>

#include <deque>
#include <map>
#include <mutex>
#include <set>

namespace mlbridge {

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
};

/// The buffers of one answer; kept by the stream between requests.
struct OutputStorage {
  Buffer frame;                ///< header and, where it has a fixed layout, payload
  std::vector<Tensor> tensors; ///< otherwise
};

struct ServerStream {
  uint32_t id = 0;
  Signature signature;
  std::string agent, episode, context;
  std::unique_ptr<Codec> inputs, outputs;
  std::vector<Shape> inputShapes, outputShapes; ///< of fixed tensors; what views point to
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
  std::shared_ptr<Session> session;
  std::shared_ptr<ServerStream> stream;
  uint64_t request = 0;
  Deadline deadline;
  std::shared_ptr<InputStorage> inputs;
  double reward = 0;
  uint64_t seed = 0;
  Status outcome;
  Deadline::Clock::time_point arrived;
  bool truncated = false;
  std::string episode, context; ///< of EpisodeBegin, which takes effect in its turn
};

/// What sessions share.
struct SessionHost {
  ServerOptions options;
  ChosenSerDes messages; ///< of the user's own, if the server's address names them
  std::deque<QueuedEvent> queue;
  size_t queuedRequests = 0;
  uint64_t queuedBytes = 0; ///< of their messages
  ServerStatistics statistics;
  std::weak_ptr<ServerStream> driver; ///< of an environment: who reset it last
  Deadline::Clock::time_point now;    ///< when the input that is handled was found
  std::mutex mutex;
};

class Session final : public std::enable_shared_from_this<Session>, private FrameReader::Target {
public:
  Session(std::unique_ptr<Channel> channel, uint64_t number, SessionHost &host);

  uint64_t number() const { return number_; }
  Channel &channel() { return *channel_; }
  bool isClosed() const { return closed_; }
  bool hasUnsent() const { return !unsent_.empty(); }
  size_t unsentSize() const { return unsent_.size() - unsentFrom_; }
  /// For the loop: whether it waits until more can be sent.
  bool awaitsWriting = false;
  /// For the loop: whether its descriptors tell of nothing at the moment.
  bool isAwake = false;

  /// Reads and handles what is there. Afterwards isClosed() may be true.
  void onReadable();
  /// Sends on what the channel did not take at once.
  void onWritable();
  /// Answers a Busy or Error frame for the whole connection and closes it.
  void refuse(const Status &why);
  void sayGoodbye(std::string_view text);

  /// Closes the channel of a closed session. Its events may live on.
  void dropChannel();
  /// Whether nobody waits for this answer any more. Forgets what it knew of it.
  bool takeCancelled(const ServerStream &stream, uint64_t request);
  /// Frame header in the first FrameHeaderSize bytes, payload behind it. Errors: Closed,
  /// LimitExceeded.
  Status sendFrame(FrameKind kind, uint32_t stream, uint64_t request, Buffer &frame,
                   uint16_t flags = 0);
  Status sendReward(uint32_t stream, double reward);
  Status sendTurn(uint32_t stream, const TurnMessage &turn);
  /// The stream of an agent on this connection; null if there is none.
  std::shared_ptr<ServerStream> streamOf(std::string_view agent) const;
  Status sendError(uint32_t stream, uint64_t request, const Status &why);

private:
  Expected<Buffer *> payloadOf(const FrameHeader &header) override;
  Status frame(const FrameHeader &header) override;
  Status onHello();
  Expected<const SerDes *> serdesFor(const std::string &name) const;
  Status onOpenStream(const FrameHeader &header);
  Status onRequest(const FrameHeader &header);
  Status onReset(const FrameHeader &header);
  Status enqueue(const FrameHeader &header, QueuedEvent event);
  Status admitDriver(const FrameHeader &header, EventKind kind);
  Status onEpisode(const FrameHeader &header);
  Status sendStatistics(uint64_t request);
  ServerStream *find(uint32_t id);
  void endStream(ServerStream &stream, const Status &why);
  void endAllStreams(const Status &why);
  void close(const Status &why);
  Status send(const uint8_t *bytes, size_t size);

  std::unique_ptr<Channel> channel_;
  const uint64_t number_;
  SessionHost &host_;
  FrameReader reader_;
  Buffer control_;
  std::shared_ptr<InputStorage> incoming_; ///< of the request whose payload is being read
  Buffer unsent_;
  size_t unsentFrom_ = 0;
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
