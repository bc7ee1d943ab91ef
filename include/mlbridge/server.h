// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The model's side out of process: listens, accepts many compilers at once, and hands their
// requests one at a time to the thread that serves.
//
//     mlbridge::ServerOptions options;
//     options.signature = signature;
//     auto server = mlbridge::Server::listen("unix:/run/policy.sock", options);
//     while (server && !server->isStopped())
//       if (auto event = server->next(); event && event->kind() == mlbridge::EventKind::Request) {
//         event->output(0).as<int64_t>()[0] = decide(event->input(0).as<float>());
//         (void)event->reply();
//       }
#ifndef MLBRIDGE_SERVER_H
#define MLBRIDGE_SERVER_H

#include <mlbridge/model.h>

#include <array>
#include <cstdint>
#include <memory>
#include <string>

namespace mlbridge {

/// The served model, and the limits of serving.
struct ServerOptions {
  /// Null: takes the signature that each compiler states.
  std::optional<Signature> signature;
  Metadata metadata;                         ///< told to each compiler
  uint32_t maxConnections = 1000;            ///< further ones are answered Busy
  uint32_t maxStreams = 1024;                ///< per connection; also limits its waiting requests
  uint64_t maxMessage = uint64_t(128) << 20; ///< bytes of one message, either direction
  uint32_t maxQueued = 4096; ///< requests waiting for the policy; one more is answered Busy
  uint64_t maxQueuedBytes = uint64_t(128) << 20; ///< of these; likewise
  uint32_t maxEvents = 256;   ///< waiting of episodes per stream; one more replaces the oldest
  uint32_t maxTensors = 1024; ///< inputs and outputs of a stream; one with more is refused
  // A connection that goes beyond one of these is closed, and told why:
  /// Bytes of one message that is no request, reply or step: a signature, a unit.
  uint64_t maxControl = uint64_t(1) << 20;
  /// Bytes that are kept for one connection: messages, decoded inputs, streams, events, replies.
  uint64_t maxConnectionMemory = uint64_t(160) << 20;
  /// The same for all connections together; the largest one is closed.
  uint64_t maxMemory = uint64_t(164) << 20;
  /// Bytes that a compiler has not read yet; at most 8 MiB of them pongs, statistics and errors.
  uint64_t maxUnsent = uint64_t(96) << 20;
  Duration handshakeTime = std::chrono::seconds(5); ///< from connecting to the end of the hello
  // The most that one connection sends before the others have their turn:
  uint32_t turnFrames = 16;                 ///< frames, if they are small
  uint64_t turnBytes = uint64_t(256) << 10; ///< bytes
  /// Several agents instead of `signature`: a compiler names the one it asks, and must have its
  /// signature.
  std::vector<AgentSpec> agents;
  /// An environment is served instead of a model, and needs the signature: whoever connects
  /// drives it with Reset and Step. Its inputs are the observation, its outputs the action. With
  /// several agents each answer says who acts next.
  bool environment = false;
  /// The policy's answer depends on the request alone: it keeps nothing from one to the next. A
  /// compiler that knows several servers may then go on with another one in the middle of an
  /// episode.
  bool stateless = false;
};

/// The kind of an Event, and how it is answered.
enum class EventKind : uint8_t {
  Request,      ///< answer with reply() or fail()
  EpisodeBegin, ///< no answer
  Reward,       ///< no answer; `reward`
  EpisodeEnd,   ///< no answer; the compiler's `outcome`; Closed if it disconnected
  Reset,        ///< of an environment: begin an episode; answer with the first observation
  Step,         ///< of an environment: apply the action; answer with the next observation
};

/// One thing that a compiler sent. For a Request: the inputs, readable until it is answered, and
/// the outputs to be written. For Reset and Step of an environment, `signature` is the other way
/// round: the inputs are the action (none for Reset), the outputs the observation; the context's
/// unit is what the driver wants to see compiled. Move-only; one that is destroyed unanswered is
/// answered PolicyFailed.
class Event {
public:
  /// Nothing; for a variable that next() is assigned to.
  Event();
  ~Event();
  Event(Event &&) noexcept;
  Event &operator=(Event &&) noexcept;

  EventKind kind() const; ///< what it is
  /// The caller, and what it works on; valid until the event is answered.
  const CallContext &context() const;
  uint64_t connection() const;   ///< number of the connection, from 1
  uint32_t stream() const;       ///< number of the stream on that connection: one Runner
  uint64_t step() const;         ///< requests answered in this episode before
  double reward() const;         ///< of a Reward
  const Status &outcome() const; ///< of EpisodeEnd: how the compilation ended
  bool isTruncated() const;      ///< of EpisodeEnd: a limit ended it, not a terminal state
  uint64_t seed() const;         ///< of a Reset: as the driver gave it

  /// The stream's signature, all Dynamic dimensions as declared.
  const Signature &signature() const;
  /// Input `index` of signature(), readable until the answer.
  TensorView input(size_t index) const;
  /// For an environment with several agents: the outputs are the observation of this one (an index
  /// into ServerOptions::agents), which acts next. Without it the agent that acted acts again;
  /// after Reset, the first one. To be called before the outputs are written. Errors:
  /// InvalidArgument.
  Status setAgent(size_t agent);
  /// The signature of the outputs: signature(), or that of the agent that was set.
  const Signature &answerSignature() const;
  /// Outputs of fixed shape are allocated; others are given their shape by resizeOutput.
  TensorView output(size_t index);
  /// Sets the lengths of an output. Errors: InvalidArgument (they do not fit), LimitExceeded.
  Expected<TensorView> resizeOutput(size_t index, Span<const int64_t> shape);
  /// Keeps the storage of the inputs alive, and unchanged, for as long as it is held. To be called
  /// before the answer: after it the compiler may write there again.
  std::shared_ptr<void> holdInputs() const;
  /// Identifies the storage of the inputs: equal for two events of a stream whose inputs lie at the
  /// same addresses, so that views made once can be used again.
  uint64_t storage() const;

  /// Sends the outputs. Errors: Closed (the compiler is gone), LimitExceeded.
  Status reply();
  /// The same for a Reset or Step, with the reward of the step. With `done` the episode has ended
  /// and the outputs are not sent.
  Status reply(double reward, bool done, bool truncated = false);
  /// For an environment with several agents: the sum of each one's rewards since it last acted.
  Status reply(Span<const double> rewards, bool done, bool truncated = false);
  /// Before a reply that ends the episode: the outputs are the last observation, of the agent that
  /// was set if there are several. Errors: those of reply.
  Status sendLast();
  /// Sends an error with this text to that compiler; the server keeps running.
  Status fail(const Status &why);

  struct State;

private:
  friend class Server;
  explicit Event(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

/// A histogram of latencies, with eight logarithmic buckets per octave from one microsecond up.
class LatencyHistogram {
public:
  void add(Duration latency);               ///< counts one
  uint64_t count() const { return count_; } ///< how many were counted
  /// The upper bound of the bucket in which the quantile lies, at most 9 % too high; 0 if there was
  /// nothing. `fraction`: 0.5 for the median.
  Duration quantile(double fraction) const;

private:
  static constexpr int BucketsOfOctave = 8;
  static constexpr int Octaves = 32; ///< beyond an hour
  std::array<uint64_t, size_t{BucketsOfOctave} * Octaves> buckets_{};
  uint64_t count_ = 0;
};

/// The counts of a server so far.
struct ServerStatistics {
  uint64_t connections = 0;     ///< accepted
  uint64_t streams = 0;         ///< opened on them
  uint64_t requests = 0;        ///< that came in
  uint64_t replies = 0;         ///< answered with outputs
  uint64_t errors = 0;          ///< answered with an error
  uint64_t dropped = 0;         ///< not answered, because the compiler had given up
  uint64_t refused = 0;         ///< connections and streams
  uint64_t bytesIn = 0;         ///< received
  uint64_t bytesOut = 0;        ///< sent
  uint64_t batches = 0;         ///< as reported by noteBatch
  uint64_t batchedRequests = 0; ///< in all batches
  uint64_t largestBatch = 0;    ///< requests in one
  uint64_t overLimit = 0;       ///< connections closed because they went beyond a limit
  uint64_t eventsDropped = 0;   ///< of episodes, because too many were waiting
  uint64_t bytesKept = 0;       ///< for all connections, at the moment
  LatencyHistogram latency;     ///< of replies, from the arrival of the request to the sending

  /// The form that goes over the wire: counts, such as "requests", "over-limit" or "bytes-kept",
  /// "latency-p50-us" with p90, p99 and max, and "batches" with "batch-mean" and "batch-max" if
  /// there were any.
  Metadata toMetadata() const;
};

/// The model's side of an address. Not copyable.
///
/// # Threads
/// `stop` may be called from any thread or signal handler, the rest from one thread. Between calls
/// of next a policy may take its time: after some milliseconds a helper thread handles pings and
/// new connections.
///
/// # Errors
/// A compiler that breaks the protocol or a limit loses its connection and is told why; the server
/// goes on.
class Server {
public:
  /// Makes the socket or FIFOs (mode 0600) and starts to accept. Errors: InvalidArgument (URI, path
  /// too long, path is something else), Busy (another server listens there), Unsupported (scheme).
  static Expected<Server> listen(std::string_view uri, ServerOptions options);
  Server(Server &&) noexcept;
  Server &operator=(Server &&) = delete;
  /// Says goodbye to all compilers, removes the socket or FIFOs.
  ~Server();

  /// The address where it listens, with the port that the system chose.
  const std::string &uri() const;
  Span<const AgentSpec> agents() const; ///< those of ServerOptions

  /// Waits for the next event. A request whose compiler has given up (deadline passed, cancelled,
  /// gone) is dropped unanswered. Errors: DeadlineExceeded; Cancelled after stop(), or when a
  /// signal arrived (EINTR), so that the caller can look at its own flags and call again. Over
  /// grpc: a signal does so only if its handler calls stop() or writes to wakeDescriptor().
  Expected<Event> next(Deadline deadline = {});
  /// Another event for the batch that the last next() began: one that is waiting already, or that
  /// arrives within `maxWait` of the batch's start. It waits only while a connected compiler may
  /// still ask, and rarely for one that recently made it wait for nothing. What comes after a
  /// request of the same stream does not belong to its batch. Errors: DeadlineExceeded (the batch
  /// is complete) and those of next.
  Expected<Event> nextOfBatch(Duration maxWait);
  /// Makes next() return Cancelled now and from now on. Async-signal-safe.
  void stop();
  /// Stops once nobody needs it any more, at the latest after `most`: health says that it is not
  /// serving, and new compilers are refused, Busy. A connection ends when nothing on it waits and
  /// no episode is open; if the server is stateless, episodes don't count. next() goes on giving
  /// requests meanwhile, and does the rest. Async-signal-safe; the first call counts.
  void drain(Duration most);
  bool isStopped() const; ///< by stop(), or at the end of drain()
  /// A file descriptor; writing one byte to it makes next() return Cancelled once. For signal
  /// libraries that wake through a descriptor.
  int wakeDescriptor() const;
  ServerStatistics statistics() const; ///< what it has done so far
  /// For the statistics: says that one call of the policy answers `requests` requests.
  void noteBatch(uint64_t requests);

  struct State;

private:
  explicit Server(std::shared_ptr<State> state);
  Expected<Event> next(Deadline deadline, const Duration *patience);
  Expected<Event> await(Deadline deadline, const Duration *patience);
  std::shared_ptr<State> state_; // events keep it too
};

} // namespace mlbridge

#endif
