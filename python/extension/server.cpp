// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The model's side from Python: the loop that calls a policy, and events one by one.
#include "model.h"
#include "policy.h"

#include <unordered_map>

namespace mlbridge::python {
namespace {

struct PyServer {
  ~PyServer() { close(); }

  /// At once, or as soon as the call that is using the server has ended.
  void close() {
    if (!server)
      return;
    if (busy.load(std::memory_order_acquire)) {
      closing = true;
      if (!fork.isForeign())
        server->stop();
      return;
    }
    std::optional<Server> gone = std::move(server);
    server.reset();
    streams.clear();
    if (fork.isForeign()) {
      abandon(std::move(*gone)); // its threads and its socket are the parent's
      return;
    }
    last = gone->statistics();
    nb::gil_scoped_release release;
    gone.reset();
  }

  Server &open() {
    fork.check("the server");
    if (!server)
      raise({Code::Closed, "the server is closed"});
    return *server;
  }

  StreamViews &views(const Event &event) {
    const RequestContext &who = event.context();
    if (recent && recent->isOf(who))
      return *recent;
    // Nobody tells when a stream ends; what is forgotten is made again.
    if (streams.size() >= 4096)
      streams.clear();
    std::unique_ptr<StreamViews> &slot = streams[who.connection << 20 ^ who.stream];
    if (!slot || !slot->isOf(who))
      slot = std::make_unique<StreamViews>(who.connection, who.stream);
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

/// Whether somebody waits for an answer.
bool isAsked(EventKind kind) {
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

class EventOutputs final : public Outputs {
public:
  explicit EventOutputs(Event &event) : event_(event) {}
  const Signature &signature() override { return event_.answerSignature(); }
  TensorView output(size_t index) override { return event_.output(index); }
  Expected<TensorView> resizeOutput(size_t index, Span<const int64_t> shape) override {
    return event_.resizeOutput(index, shape);
  }

private:
  Event &event_;
};

/// mlbridge.Event: what Server.next gives and on_event gets.
struct PyEvent {
  PyEvent(Event made, nb::object from) : event(std::move(made)), server(std::move(from)) {}

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
      abandon(std::move(event)); // unanswered, it would answer the parent's compiler
  }

  Event event;
  nb::object server;
  nb::object inputs, context;
  ForkGuard fork;
  bool answered = false;
};

/// Answers one request. Throws what ends the serving.
Status answer(PyServer &self, Event &event, nb::handle policy) {
  StreamViews &views = self.views(event);
  views.show(event);
  nb::object result = call(policy.ptr(), views.observation(), views.context());
  Status status;
  if (result.is_valid()) {
    EventOutputs outputs(event);
    status = storeOutputs(result.ptr(), outputs);
    result.reset(); // may be a view of the observation
  } else if (isInterrupt()) {
    nb::python_error interrupt;
    views.settle(event);
    (void)event.fail({Code::Cancelled, "the server was interrupted"});
    throw interrupt;
  } else {
    status = takePythonError("the policy");
  }
  views.settle(event);
  return status;
}

/// The policy's loop. The GIL is released from the moment an answer is ready until the next event
/// is there.
void serve(nb::handle_t<PyServer> handle, const nb::object &policy, const nb::object &onEvent,
           const nb::object &stop) {
  PyServer &self = nb::cast<PyServer &>(handle);
  InUse inUse(self);
  Server &server = self.open();
  Event pending;
  bool isAnswered = false;
  Status verdict;
  for (;;) {
    std::optional<Expected<Event>> next;
    {
      nb::gil_scoped_release release;
      if (isAnswered) {
        // A compiler that has gone away in the meantime is no concern of the policy.
        (void)(verdict ? pending.reply() : pending.fail(verdict));
        pending = Event();
        isAnswered = false;
      }
      next.emplace(server.next());
    }
    if (PyErr_CheckSignals() < 0) {
      if (*next && isAsked((*next)->kind()))
        (void)(*next)->fail({Code::Cancelled, "the server was interrupted"});
      throw nb::python_error();
    }
    if (!*next) {
      if (next->status().code() != Code::Cancelled)
        raise(next->status());
      if (server.isStopped())
        return;
      continue;
    }
    pending = std::move(**next);
    if (pending.kind() == EventKind::Request) {
      verdict = answer(self, pending, policy);
      isAnswered = true;
    } else if (!onEvent.is_none()) {
      onEvent(PyEvent(std::exchange(pending, Event()), nb::borrow<nb::object>(handle)));
    }
    if (!stop.is_none() && nb::cast<bool>(nb::bool_(stop()))) {
      if (isAnswered) {
        nb::gil_scoped_release release;
        (void)(verdict ? pending.reply() : pending.fail(verdict));
      }
      return;
    }
  }
}

nb::object nextEvent(nb::handle_t<PyServer> handle, nb::handle timeout) {
  PyServer &self = nb::cast<PyServer &>(handle);
  InUse inUse(self);
  Server &server = self.open();
  const Deadline deadline =
      timeout.is_none() ? Deadline::never() : Deadline::after(Duration(nanoseconds(timeout)));
  for (;;) {
    std::optional<Expected<Event>> next;
    {
      nb::gil_scoped_release release;
      next.emplace(server.next(deadline));
    }
    if (PyErr_CheckSignals() < 0)
      throw nb::python_error();
    if (*next)
      return nb::cast(PyEvent(std::move(**next), nb::borrow<nb::object>(handle)));
    if (next->status().code() == Code::DeadlineExceeded)
      return nb::none();
    if (next->status().code() != Code::Cancelled || server.isStopped())
      raise(next->status());
  }
}

nb::object inputsOf(PyEvent &self) {
  if (self.event.kind() == EventKind::Reset)
    return nb::dict();
  if (!isAsked(self.event.kind()))
    raise({Code::InvalidArgument, "only a request or a step has inputs"});
  if (!self.inputs.is_valid()) {
    if (self.answered)
      raise({Code::InvalidArgument, "the request has been answered; take its inputs before"});
    auto *hold = new std::shared_ptr<void>(self.event.holdInputs());
    nb::capsule base(
        hold, [](void *held) noexcept { delete static_cast<std::shared_ptr<void> *>(held); });
    nb::dict inputs;
    const Signature &signature = self.event.signature();
    for (size_t i = 0; i < signature.inputs.size(); ++i)
      inputs[signature.inputs[i].name.c_str()] =
          nb::steal<nb::object>(newView(self.event.input(i), base.ptr(), false));
    self.inputs = std::move(inputs);
  }
  return self.inputs;
}

/// A number for each agent of the environment, 0 where none is given.
std::vector<double> rewardsOf(Span<const AgentSpec> agents,
                              const std::map<std::string, double> &given) {
  std::vector<double> rewards(agents.size());
  for (const auto &[name, value] : given) {
    const int agent = findAgent(agents, name);
    if (agent < 0)
      raise({Code::InvalidArgument, "a reward for '" + name + "', which is no agent"});
    rewards[static_cast<size_t>(agent)] = value;
  }
  return rewards;
}

void reply(PyEvent &self, nb::handle value, std::optional<double> reward, bool done,
           const std::optional<std::string> &agent,
           const std::optional<std::map<std::string, double>> &rewards, bool truncated) {
  self.expectUnanswered();
  const bool driven = self.event.kind() != EventKind::Request;
  if (!driven && (reward || done || agent || rewards || truncated))
    raise({Code::InvalidArgument, "only a reset or step is answered with a reward"});
  const Span<const AgentSpec> agents = nb::cast<PyServer &>(self.server).open().agents();
  if (driven && !agents.empty() && reward)
    raise({Code::InvalidArgument, "several agents have rewards, not one reward"});
  if (agents.empty() && (agent || rewards))
    raise({Code::InvalidArgument, "the server was not made with several agents"});
  std::vector<double> each;
  if (!agents.empty() && rewards)
    each = rewardsOf(agents, *rewards);
  each.resize(agents.size());
  inputsOf(self); // which stay readable
  if (agent && !done) {
    const int number = findAgent(agents, *agent);
    if (number < 0)
      raise({Code::InvalidArgument, "there is no agent '" + *agent + "'"});
    check(self.event.setAgent(static_cast<size_t>(number)));
  }
  EventOutputs outputs(self.event);
  if (!done)
    check(storeOutputs(value.ptr(), outputs));
  self.answered = true;
  Status status;
  {
    nb::gil_scoped_release release;
    if (!driven)
      status = self.event.reply();
    else if (agents.empty())
      status = self.event.reply(reward.value_or(0), done, truncated);
    else
      status = self.event.reply(Span<const double>(each), done, truncated);
  }
  check(status);
}

void fail(PyEvent &self, std::string message) {
  self.expectUnanswered();
  inputsOf(self);
  self.answered = true;
  Status status;
  {
    nb::gil_scoped_release release;
    status = self.event.fail({Code::PolicyFailed, std::move(message)});
  }
  check(status);
}

nb::object outcomeOf(const PyEvent &self) {
  const Status &status = self.event.outcome();
  return nb::module_::import_("mlbridge.errors")
      .attr("_status")(static_cast<int>(status.code()),
                       nb::steal<nb::object>(toPython(status.message())));
}

void listen(PyServer *self, const std::string &uri, std::optional<Signature> signature,
            std::optional<Metadata> metadata, uint32_t maxConnections, uint32_t maxStreams,
            uint64_t maxMessage, uint32_t maxQueued, uint64_t maxQueuedBytes, bool environment,
            std::vector<std::pair<std::string, Signature>> agents) {
  ServerOptions options;
  for (auto &[name, own] : agents)
    options.agents.push_back({std::move(name), std::move(own)});
  options.environment = environment;
  options.signature = std::move(signature);
  if (metadata)
    options.metadata = std::move(*metadata);
  options.maxConnections = maxConnections;
  options.maxStreams = maxStreams;
  options.maxMessage = maxMessage;
  options.maxQueued = maxQueued;
  options.maxQueuedBytes = maxQueuedBytes;
  std::optional<Expected<Server>> server;
  {
    nb::gil_scoped_release release;
    server.emplace(Server::listen(uri, std::move(options)));
  }
  check(server->status());
  new (self) PyServer();
  self->server.emplace(std::move(**server));
  self->address = self->server->uri();
}

nb::object text(const std::string &value) { return nb::steal<nb::object>(toPython(value)); }

} // namespace

void bindServer(nb::module_ &m) {
  nb::class_<Context>(m, "Context", "Who asks: the second argument of a policy.")
      .def_prop_ro(
          "episode", [](const Context &c) { return text(c.episode); },
          "The id by which a trainer knows the compilation again")
      .def_prop_ro(
          "context", [](const Context &c) { return text(c.context); },
          "Free text of the compiler: module, function")
      .def_prop_ro(
          "agent", [](const Context &c) { return text(c.agent); },
          "Which of several agents is asked; \"\" for the only one")
      .def_ro("connection", &Context::connection, "The number of the connection, from 1")
      .def_ro("stream", &Context::stream, "The number of the stream on its connection")
      .def_ro("step", &Context::step, "Requests answered in this episode before")
      .def("__repr__", [](const Context &c) {
        return text("<mlbridge.Context connection=" + std::to_string(c.connection) +
                    " stream=" + std::to_string(c.stream) + " step=" + std::to_string(c.step) +
                    " episode='" + c.episode + "' context='" + c.context + "'>");
      });

  nb::enum_<EventKind>(m, "EventKind", "What a compiler sent.")
      .value("REQUEST", EventKind::Request)
      .value("EPISODE_BEGIN", EventKind::EpisodeBegin)
      .value("REWARD", EventKind::Reward)
      .value("EPISODE_END", EventKind::EpisodeEnd)
      .value("RESET", EventKind::Reset)
      .value("STEP", EventKind::Step);

  nb::class_<ServerStatistics>(m, "Statistics", "What a server has done so far.")
      .def_ro("connections", &ServerStatistics::connections, "Accepted so far")
      .def_ro("streams", &ServerStatistics::streams, "Opened on them; each is a Runner")
      .def_ro("requests", &ServerStatistics::requests, "That came in")
      .def_ro("replies", &ServerStatistics::replies, "Requests answered with outputs")
      .def_ro("errors", &ServerStatistics::errors, "Requests answered with an error")
      .def_ro("dropped", &ServerStatistics::dropped,
              "Requests whose compiler had given up before they were answered")
      .def_ro("refused", &ServerStatistics::refused, "Connections and streams that were refused")
      .def_ro("batches", &ServerStatistics::batches, "Calls of a policy that takes batches")
      .def_ro("batched_requests", &ServerStatistics::batchedRequests, "In all batches")
      .def_ro("largest_batch", &ServerStatistics::largestBatch, "Requests in one batch")
      .def_ro("bytes_in", &ServerStatistics::bytesIn, "Received")
      .def_ro("bytes_out", &ServerStatistics::bytesOut, "Sent")
      .def(
          "latency",
          [](const ServerStatistics &s, double fraction) {
            return std::chrono::duration<double>(s.latency.quantile(fraction)).count();
          },
          nb::arg("fraction"),
          "Seconds within which this fraction of the replies went out, at most 9 % too high.")
      .def("__repr__", [](const ServerStatistics &s) {
        return "<mlbridge.Statistics connections=" + std::to_string(s.connections) +
               " requests=" + std::to_string(s.requests) + " replies=" + std::to_string(s.replies) +
               " errors=" + std::to_string(s.errors) + " dropped=" + std::to_string(s.dropped) +
               " refused=" + std::to_string(s.refused) + ">";
      });

  nb::class_<PyEvent>(m, "Event",
                      "One thing that a compiler sent. A request is answered once, by reply or "
                      "fail; one that is dropped unanswered is answered with an error.")
      .def_prop_ro(
          "kind", [](const PyEvent &self) { return self.event.kind(); },
          "What it is, and so how it is answered.")
      .def_prop_ro(
          "context",
          [](PyEvent &self) {
            if (!self.context.is_valid())
              self.context = newContext(self.event.context());
            return self.context;
          },
          "Who asks.")
      .def_prop_ro(
          "reward", [](const PyEvent &self) { return self.event.reward(); }, "Of a reward.")
      .def_prop_ro(
          "truncated", [](const PyEvent &self) { return self.event.isTruncated(); },
          "Of the end of an episode: a limit ended it, and not its last state.")
      .def_prop_ro("outcome", &outcomeOf, "How the compiler says that the episode ended.")
      .def_prop_ro(
          "signature", [](const PyEvent &self) { return self.event.signature(); },
          "What the compiler stated, with dynamic lengths as declared.")
      .def_prop_ro("inputs", &inputsOf,
                   "The inputs by name, read-only; they stay as they are however long they are "
                   "kept.")
      .def_prop_ro(
          "seed", [](const PyEvent &self) { return self.event.seed(); },
          "Of a reset: the seed that the driver gave.")
      .def("reply", &reply, nb::arg("outputs").none(), nb::kw_only(),
           nb::arg("reward").none() = nb::none(), nb::arg("done") = false,
           nb::arg("agent").none() = nb::none(), nb::arg("rewards").none() = nb::none(),
           nb::arg("truncated") = false,
           "Answers with a mapping of outputs, or with the value of the only one. A step is "
           "answered with its reward besides; with done the outputs are not sent. Of several "
           "agents: who acts next, whose observation the outputs are, and what each has been "
           "given since it acted.")
      .def("fail", &fail, nb::arg("message"), "Answers with an error; the server lives on.");

  nb::class_<PyServer>(m, "_Server", nb::is_weak_referenceable())
      .def("__init__", &listen, nb::arg("uri"), nb::arg("signature").none() = nb::none(),
           nb::arg("metadata").none() = nb::none(), nb::kw_only(),
           nb::arg("max_connections") = ServerOptions().maxConnections,
           nb::arg("max_streams") = ServerOptions().maxStreams,
           nb::arg("max_message") = ServerOptions().maxMessage,
           nb::arg("max_queued") = ServerOptions().maxQueued,
           nb::arg("max_queued_bytes") = ServerOptions().maxQueuedBytes,
           nb::arg("environment") = false,
           nb::arg("agents") = std::vector<std::pair<std::string, Signature>>())
      .def_prop_ro(
          "address", [](const PyServer &self) { return text(self.address); },
          "Where it listens, with the port that the system chose.")
      .def_prop_ro(
          "agents",
          [](PyServer &self) {
            nb::dict agents;
            for (const AgentSpec &agent : self.open().agents())
              agents[text(agent.name)] = nb::cast(agent.signature);
            return agents;
          },
          "The signatures of several agents by name.")
      .def_prop_ro(
          "closed", [](const PyServer &self) { return !self.server; },
          "Whether close() was called.")
      .def_prop_ro(
          "stopped", [](const PyServer &self) { return !self.server || self.server->isStopped(); },
          "Whether stop() or close() was called.")
      .def_prop_ro(
          "statistics",
          [](const PyServer &self) { return self.server ? self.server->statistics() : self.last; },
          "What it has done so far; after close(), until then.")
      .def_prop_ro("_wake_descriptor", [](PyServer &self) { return self.open().wakeDescriptor(); })
      .def("_serve", &serve, nb::arg("policy"), nb::arg("on_event").none(), nb::arg("stop").none())
      .def("_note_batch", [](PyServer &self, uint64_t size) { self.open().noteBatch(size); })
      .def("_next", &nextEvent, nb::arg("timeout").none())
      .def(
          "stop",
          [](PyServer &self) {
            if (self.server && !self.fork.isForeign())
              self.server->stop();
          },
          "Ends serve() soon, and every wait for an event. From any thread or signal handler.")
      .def("close", &PyServer::close,
           "Says goodbye to all compilers and removes the socket or FIFOs. May be called twice.");
}

} // namespace mlbridge::python
