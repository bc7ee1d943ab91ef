// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What a server and the events that it gave out share.
#ifndef MLBRIDGE_SERVER_EVENT_H
#define MLBRIDGE_SERVER_EVENT_H

#include "server/loop.h"

namespace mlbridge {

struct Server::State : SessionHost {
  std::unique_ptr<Event::State> takeNext(Deadline::Clock::time_point now);

  std::string uri;
  std::atomic<bool> stopped{false};
  std::unique_ptr<Event::State> spareEvent; ///< guarded by the mutex
  Deadline::Clock::time_point batchBegan;   ///< when the last event was given out by next()
  ServerLoop loop{*this};                   // last: its end says goodbye with the rest still there
};

struct Event::State : TensorSink {
  std::shared_ptr<Server::State> server;
  QueuedEvent event;
  std::unique_ptr<OutputStorage> outputs;
  std::shared_ptr<const StreamTexts> texts; ///< what the context points to
  RequestContext context;
  bool open = false; ///< a request that has not been answered
  bool done = false; ///< the answer ends the episode
  bool truncated = false;
  TurnMessage turn; ///< of an environment with several agents
  /// Whose observation it is, if not that of the agent that acted.
  std::shared_ptr<ServerStream> answering;

  ServerStream &stream() const { return *event.stream; }
  ServerStream &target() const { return answering ? *answering : *event.stream; }
  bool isDriven() const { return event.kind == EventKind::Reset || event.kind == EventKind::Step; }
  bool hasAgents() const { return !server->options.agents.empty(); }

  Status takeIn();
  Status takeInFromMemory();
  Status keepHeld();
  Status prepareOutputs();
  Status chargeOutputs(uint64_t bytes);
  Status tooLarge(const std::string &what, uint64_t bytes) const;
  Expected<TensorView> prepare(size_t index, Span<const int64_t> shape) override;
  bool adopt(size_t index, Span<const int64_t> shape, const uint8_t *data) override;
  void place(size_t index, Span<const int64_t> shape, void *data, size_t count);
  Status encodeOutputs();
  Status answer(Status (*send)(State &));
  Status sendTurn();
  void endEpisode();
  void release();
};

} // namespace mlbridge

#endif
