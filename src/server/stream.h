// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A stream of a connection as the server sees it, and what waits on it for the policy.
#ifndef MLBRIDGE_SERVER_STREAM_H
#define MLBRIDGE_SERVER_STREAM_H

#include "core/buffer.h"
#include "serdes/serdes.h"
#include "server/memory_account.h"
#include "transport/transport.h"
#include <mlbridge/server.h>

#include <list>

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
  std::vector<uint64_t> decoded;                  ///< bytes that the tensors took at most
  Charge charge; ///< of all this, and of the event that it waits in
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

/// True if somebody waits for an answer.
inline bool isAsked(EventKind kind) {
  return kind == EventKind::Request || kind == EventKind::Reset || kind == EventKind::Step;
}

/// An event that waits for the policy.
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

/// The bytes that an event takes while it waits.
inline constexpr uint64_t CostOfEvent = sizeof(QueuedEvent) + 64;

/// The views of a stream's input or output number `index` in a message of fixed layout.
TensorView viewInMessage(const TensorSpec &spec, const Codec &codec, size_t index,
                         uint8_t *payload);

} // namespace mlbridge

#endif
