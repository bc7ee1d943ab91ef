// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The model's side from Python: the server, and what it gives out.
#ifndef MLBRIDGE_PYTHON_SERVER_H
#define MLBRIDGE_PYTHON_SERVER_H

#include "policy.h"

#include <unordered_map>

namespace mlbridge::python {

struct PyServer {
  ~PyServer() { close(); }

  /// Closes at once, or as soon as the call that is using the server has ended.
  void close() {
    if (!server)
      return;
    if (busy.load(std::memory_order_acquire)) {
      closing = true;
      if (!fork.isForeign())
        server->stop();
      return;
    }
    streams.clear();
    if (!fork.isForeign())
      last = server->statistics();
    Server gone = std::move(*server);
    server.reset();
    end(std::move(gone), fork);
  }

  Server &open() {
    fork.check("the server");
    if (!server)
      raise({Code::Closed, "the server is closed"});
    return *server;
  }

  StreamViews &views(const Event &event) {
    if (recent && recent->isOf(event))
      return *recent;
    // Nobody tells when a stream ends; what is forgotten is made again.
    if (streams.size() >= 4096)
      streams.clear();
    std::unique_ptr<StreamViews> &slot = streams[event.connection() << 20 ^ event.stream()];
    if (!slot || !slot->isOf(event))
      slot = std::make_unique<StreamViews>(event.connection(), event.stream());
    recent = slot.get();
    return *recent;
  }

  std::optional<Server> server;
  std::string address;
  ServerStatistics last;
  ForkGuard fork;
  std::atomic<bool> busy{false};
  bool closing = false;
  std::unordered_map<uint64_t, std::unique_ptr<StreamViews>> streams;
  StreamViews *recent = nullptr;
};

/// True if somebody waits for an answer.
inline bool isAsked(EventKind kind) {
  return kind == EventKind::Request || kind == EventKind::Reset || kind == EventKind::Step;
}

/// One thread at a time waits for events; a close() from elsewhere is done when it ends.
class InUse {
public:
  explicit InUse(PyServer &server) : server_(server), exclusive_(server.busy, "the server") {}
  ~InUse() {
    exclusive_.end();
    if (server_.closing)
      server_.close();
  }

private:
  PyServer &server_;
  Exclusive exclusive_;
};

/// A request and how it was answered.
struct Answered {
  Event event;
  Status verdict;

  /// A compiler that has gone away in the meantime is no error.
  void send() { (void)(verdict ? event.reply() : event.fail(verdict)); }
};

/// mlbridge.Event: what Server.next gives and on_event gets.
struct PyEvent {
  PyEvent(Event received, nb::object from) : event(std::move(received)), server(std::move(from)) {}

  void expectUnanswered() const {
    if (!isAsked(event.kind()))
      raise({Code::InvalidArgument, "only a request, a reset or a step is answered"});
    if (answered)
      raise({Code::InvalidArgument, "the request has been answered already"});
    nb::cast<PyServer &>(server).open();
  }

  PyEvent(PyEvent &&) = default;
  ~PyEvent() {
    if (fork.isForeign())
      end(std::move(event), fork); // unanswered, it would answer the parent's compiler
  }

  Event event;
  nb::object server;
  nb::object inputs, context;
  ForkGuard fork;
  bool answered = false;
};

/// Server.serve_batches: a call of the policy for up to `most` requests.
void serveBatches(nb::handle_t<PyServer> handle, const nb::object &policy,
                  const nb::object &onEvent, const nb::object &stop, size_t most,
                  const Time &maxWait, const nb::object &pad);

} // namespace mlbridge::python

#endif
