// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Servers and their events.
#include "c/handles.h"

#include <cstdlib>

using namespace mlbridge;
using namespace mlbridge::c;

namespace {

/// An event as a function sees one evaluation.
class EventCall final : public FunctionCall {
public:
  explicit EventCall(Event &event) : event_(event), context_(event.context()) {}
  const Signature &signature() const override { return changed_ ? *changed_ : event_.signature(); }
  TensorView input(size_t index) const override { return event_.input(index); }
  TensorView output(size_t index) override { return event_.output(index); }
  Expected<TensorView> resizeOutput(size_t index, Span<const int64_t> shape) override {
    return event_.resizeOutput(index, shape);
  }
  const CallContext &context() const override { return context_; }
  /// After the event's agent has been set: inputs of the one, outputs of the other.
  void changeAgent() {
    changed_ = event_.signature();
    changed_->outputs = event_.answerSignature().outputs;
  }

private:
  Event &event_;
  const CallContext context_; ///< lasts longer than the event's, which its answer ends
  std::optional<Signature> changed_;
};

} // namespace

struct mlbridge_event {
  explicit mlbridge_event(Event from) : event(std::move(from)), tensors(event) {}
  Event event;
  EventCall tensors;
  mlbridge_call call{tensors, {}};
};

static mlbridge_code ended(mlbridge_server &server, Status status) {
  server.last = std::move(status);
  return codeOf(server.last);
}

static Status readOptions(const mlbridge_server_options *stated, ServerOptions &to) {
  mlbridge_server_options read;
  if (Status s = readOptional(stated, read, "mlbridge_server_options"); !s)
    return s;
  if (read.signature) {
    Expected<Signature> signature = signatureOf(*read.signature);
    if (!signature)
      return signature.status();
    to.signature = std::move(*signature);
  }
  if (Status s = readAgents(read.agents, read.agents_size, to.agents); !s)
    return s;
  if (Status s = readMetadata(read.metadata, read.metadata_size, to.metadata); !s)
    return s;
  to.environment = read.environment;
  to.stateless = read.stateless;
  const auto limit = [](auto stated, auto &limit) {
    if (stated)
      limit = stated;
  };
  limit(read.max_connections, to.maxConnections);
  limit(read.max_streams, to.maxStreams);
  limit(read.max_queued, to.maxQueued);
  limit(read.max_message, to.maxMessage);
  limit(read.max_queued_bytes, to.maxQueuedBytes);
  limit(read.max_control, to.maxControl);
  limit(read.max_connection_memory, to.maxConnectionMemory);
  limit(read.max_memory, to.maxMemory);
  limit(read.max_unsent, to.maxUnsent);
  limit(read.turn_bytes, to.turnBytes);
  limit(read.turn_frames, to.turnFrames);
  limit(read.max_events, to.maxEvents);
  limit(read.max_tensors, to.maxTensors);
  if (read.handshake_time)
    to.handshakeTime = Duration(read.handshake_time);
  return Status();
}

extern "C" {

mlbridge_server *mlbridge_server_listen(const char *uri, const mlbridge_server_options *stated) {
  auto *handle = new mlbridge_server;
  ServerOptions options;
  handle->last = readOptions(stated, options);
  if (!handle->last)
    return handle;
  Expected<Server> server = Server::listen(textOf(uri), std::move(options));
  if (server)
    handle->server.emplace(std::move(*server));
  handle->last = server.status();
  return handle;
}

void mlbridge_server_close(mlbridge_server *server) { delete server; }

mlbridge_code mlbridge_server_code(const mlbridge_server *server) {
  return server ? codeOf(server->last) : MLBRIDGE_INVALID_ARGUMENT;
}
const char *mlbridge_server_message(const mlbridge_server *server) {
  return server ? server->last.message().c_str() : "no server was given";
}
const char *mlbridge_server_uri(const mlbridge_server *server) {
  return server && server->server ? server->server->uri().c_str() : "";
}
uint64_t mlbridge_server_statistic(const mlbridge_server *server, const char *name) {
  if (!server || !server->server || !name)
    return 0;
  const Metadata all = server->server->statistics().toMetadata();
  const char *value = valueOf(all, name);
  return value ? std::strtoull(value, nullptr, 10) : 0;
}

void mlbridge_server_note_batch(mlbridge_server *server, uint64_t requests) {
  if (server && server->server)
    server->server->noteBatch(requests);
}

void mlbridge_server_stop(mlbridge_server *server) {
  if (server && server->server)
    server->server->stop();
}
void mlbridge_server_drain(mlbridge_server *server, int64_t most) {
  if (server && server->server)
    server->server->drain(Duration(most));
}
bool mlbridge_server_is_stopped(const mlbridge_server *server) {
  return !server || !server->server || server->server->isStopped();
}
int mlbridge_server_wake_descriptor(const mlbridge_server *server) {
  return server && server->server ? server->server->wakeDescriptor() : -1;
}

mlbridge_code mlbridge_server_serve(mlbridge_server *server, mlbridge_function function,
                                    void *data) {
  if (!server)
    return MLBRIDGE_INVALID_ARGUMENT;
  if (!server->server)
    return codeOf(server->last);
  if (!function)
    return ended(*server, Status(Code::InvalidArgument, "no function was given (null)"));
  while (true) {
    Expected<Event> event = server->server->next();
    if (!event) {
      if (event.status().code() == Code::Cancelled && !server->server->isStopped())
        continue;
      return ended(*server, event.status());
    }
    if (event->kind() != EventKind::Request)
      continue;
    EventCall tensors(*event);
    mlbridge_call call{tensors, {}};
    // A compiler that has gone needs no answer.
    if (const mlbridge_code code = function(&call, data); code == MLBRIDGE_OK)
      (void)event->reply();
    else
      (void)event->fail(statusOf(code, call.message.c_str()));
  }
}

static mlbridge_event *given(mlbridge_server &server, Expected<Event> event) {
  (void)ended(server, event.status());
  return event ? new mlbridge_event(std::move(*event)) : nullptr;
}
mlbridge_event *mlbridge_server_next(mlbridge_server *server, int64_t nanoseconds) {
  if (!server || !server->server)
    return nullptr;
  return given(*server,
               server->server->next(nanoseconds < 0 ? Deadline::never()
                                                    : Deadline::after(Duration(nanoseconds))));
}
mlbridge_event *mlbridge_server_next_of_batch(mlbridge_server *server, int64_t max_wait) {
  if (!server || !server->server)
    return nullptr;
  return given(*server, server->server->nextOfBatch(Duration(max_wait)));
}

void mlbridge_event_destroy(mlbridge_event *event) { delete event; }

mlbridge_event_kind mlbridge_event_get_kind(const mlbridge_event *event) {
  return event ? static_cast<mlbridge_event_kind>(event->event.kind()) : 0;
}
mlbridge_call *mlbridge_event_call(mlbridge_event *event) { return event ? &event->call : nullptr; }
uint64_t mlbridge_event_connection(const mlbridge_event *event) {
  return event ? event->event.connection() : 0;
}
uint32_t mlbridge_event_stream(const mlbridge_event *event) {
  return event ? event->event.stream() : 0;
}
uint64_t mlbridge_event_step(const mlbridge_event *event) {
  return event ? event->event.step() : 0;
}
double mlbridge_event_reward(const mlbridge_event *event) {
  return event ? event->event.reward() : 0;
}
uint64_t mlbridge_event_seed(const mlbridge_event *event) {
  return event ? event->event.seed() : 0;
}
mlbridge_code mlbridge_event_outcome(const mlbridge_event *event, const char **message) {
  if (message)
    *message = event ? event->event.outcome().message().c_str() : "";
  return event ? codeOf(event->event.outcome()) : MLBRIDGE_INVALID_ARGUMENT;
}
bool mlbridge_event_is_truncated(const mlbridge_event *event) {
  return event && event->event.isTruncated();
}

mlbridge_code mlbridge_event_reply(mlbridge_event *event) {
  if (!event || event->event.kind() != EventKind::Request)
    return MLBRIDGE_INVALID_ARGUMENT;
  return codeOf(event->event.reply());
}
mlbridge_code mlbridge_event_set_agent(mlbridge_event *event, uint64_t agent) {
  if (!event)
    return MLBRIDGE_INVALID_ARGUMENT;
  const Status set = event->event.setAgent(agent);
  if (set)
    event->tensors.changeAgent();
  return codeOf(set);
}
mlbridge_code mlbridge_event_reply_step(mlbridge_event *event, const double *rewards, uint64_t size,
                                        bool done, bool truncated) {
  if (!event || (size && !rewards))
    return MLBRIDGE_INVALID_ARGUMENT;
  const Span<const double> all(rewards, size);
  Status sent = event->event.reply(all, done, truncated);
  if (sent.code() == Code::InvalidArgument && size == 1) // of one agent without a name
    sent = event->event.reply(rewards[0], done, truncated);
  return codeOf(sent);
}
mlbridge_code mlbridge_event_send_last(mlbridge_event *event) {
  return event ? codeOf(event->event.sendLast()) : MLBRIDGE_INVALID_ARGUMENT;
}
mlbridge_code mlbridge_event_fail(mlbridge_event *event, mlbridge_code code, const char *message) {
  return event ? codeOf(event->event.fail(statusOf(code, message))) : MLBRIDGE_INVALID_ARGUMENT;
}

} // extern "C"
