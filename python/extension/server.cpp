// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The model's side from Python: the loop that calls a policy, and events one by one.
#include "server.h"

#include <limits>
#include <variant>

namespace mlbridge::python {
namespace {

/// Answers one request. Throws errors that end the serving.
Status answer(PyServer &self, Event &event, nb::handle policy) {
  StreamViews &views = self.views(event);
  views.show(event);
  nb::object result = call(policy.ptr(), views.observation(), views.context());
  Status status;
  if (result.is_valid()) {
    EventOutputs outputs(event);
    status = storeOutputs(result.ptr(), event.answerSignature(), outputs);
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

/// Answers one request; if there is no memory for it, it fails, and the server goes on.
Status answerOrFail(PyServer &self, Event &event, nb::handle policy) {
  try {
    return answer(self, event, policy);
  } catch (const std::bad_alloc &) {
  } catch (nb::python_error &error) {
    if (!error.matches(PyExc_MemoryError))
      throw;
  }
  return {Code::LimitExceeded, "the server has no memory for this request"};
}

/// The policy's loop. The GIL is released from the moment an answer is sent, which waits for
/// nobody, until the next event is there.
void serve(nb::handle_t<PyServer> handle, const nb::object &policy, const nb::object &onEvent,
           const nb::object &stop) {
  PyServer &self = nb::cast<PyServer &>(handle);
  InUse inUse(self);
  Server &server = self.open();
  std::optional<Answered> answered;
  for (;;) {
    if (answered)
      answered->send();
    Expected<Event> next = withoutGil([&] {
      answered.reset();
      return server.next();
    });
    if (PyErr_CheckSignals() < 0) {
      if (next && isAsked(next->kind()))
        (void)next->fail({Code::Cancelled, "the server was interrupted"});
      throw nb::python_error();
    }
    if (!next) {
      if (next.status().code() != Code::Cancelled)
        raise(next.status());
      if (server.isStopped())
        return;
      continue;
    }
    if (next->kind() == EventKind::Request) {
      Status verdict = answerOrFail(self, *next, policy);
      answered = {std::move(*next), std::move(verdict)};
    } else if (!onEvent.is_none()) {
      onEvent(PyEvent(std::move(*next), nb::borrow<nb::object>(handle)));
    }
    if (!stop.is_none() && nb::cast<bool>(nb::bool_(stop()))) {
      if (answered)
        answered->send();
      return;
    }
  }
}

std::optional<PyEvent> nextEvent(nb::handle_t<PyServer> handle,
                                 const std::optional<Time> &timeout) {
  PyServer &self = nb::cast<PyServer &>(handle);
  InUse inUse(self);
  Server &server = self.open();
  const Deadline deadline = timeout ? Deadline::after(durationOf(*timeout)) : Deadline::never();
  for (;;) {
    Expected<Event> next = withoutGil([&] { return server.next(deadline); });
    if (PyErr_CheckSignals() < 0)
      throw nb::python_error();
    if (next)
      return PyEvent(std::move(*next), nb::borrow<nb::object>(handle));
    if (next.status().code() == Code::DeadlineExceeded)
      return std::nullopt;
    if (next.status().code() != Code::Cancelled || server.isStopped())
      raise(next.status());
  }
}

Arrays inputsOf(PyEvent &self) {
  if (self.event.kind() == EventKind::Reset)
    return {};
  if (!isAsked(self.event.kind()))
    raise({Code::InvalidArgument, "only a request or a step has inputs"});
  if (!self.inputs.is_valid()) {
    if (self.answered)
      raise({Code::InvalidArgument, "the request has been answered; read its inputs before"});
    auto *hold = new std::shared_ptr<void>(self.event.holdInputs());
    nb::capsule base(
        hold, [](void *held) noexcept { delete static_cast<std::shared_ptr<void> *>(held); });
    self.inputs = arraysOf(self.event.signature().inputs, [&](size_t i) {
      return newView(self.event.input(i), base.ptr(), false);
    });
  }
  return nb::borrow<Arrays>(self.inputs);
}

/// A number for each agent of the environment, 0 where none is given.
std::vector<double> rewardsOf(Span<const AgentSpec> agents,
                              const std::map<std::string, double> &given) {
  std::vector<double> rewards(agents.size());
  for (const auto &[name, value] : given) {
    const int agent = findAgent(agents, name);
    if (agent < 0)
      raise({Code::InvalidArgument, "rewards: there is no agent '" + name + "'"});
    rewards[static_cast<size_t>(agent)] = value;
  }
  return rewards;
}

/// Writes an observation, of the agent that is named if there are several.
void storeObservation(PyEvent &self, nb::handle value, const std::optional<std::string> &agent) {
  if (agent) {
    const Span<const AgentSpec> agents = nb::cast<PyServer &>(self.server).open().agents();
    const int number = findAgent(agents, *agent);
    if (number < 0)
      raise({Code::InvalidArgument, "there is no agent '" + *agent + "'"});
    check(self.event.setAgent(static_cast<size_t>(number)));
  }
  EventOutputs outputs(self.event);
  check(storeOutputs(value.ptr(), self.event.answerSignature(), outputs));
}

void sendLast(PyEvent &self, nb::handle value, const std::optional<std::string> &agent) {
  self.expectUnanswered();
  inputsOf(self); // which stay readable
  storeObservation(self, value, agent);
  check(self.event.sendLast());
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
    raise({Code::InvalidArgument, "several agents: pass rewards instead of reward"});
  if (agents.empty() && (agent || rewards))
    raise({Code::InvalidArgument, "the server was not made with several agents"});
  std::vector<double> each;
  if (!agents.empty() && rewards)
    each = rewardsOf(agents, *rewards);
  each.resize(agents.size());
  inputsOf(self);
  const bool isNothing =
      value.is_none() || (PyDict_Check(value.ptr()) && PyDict_Size(value.ptr()) == 0);
  if (!done)
    storeObservation(self, value, agent);
  else if (!isNothing)
    sendLast(self, value, agent);
  self.answered = true;
  check(withoutGil([&] {
    if (!driven)
      return self.event.reply();
    if (agents.empty())
      return self.event.reply(reward.value_or(0), done, truncated);
    return self.event.reply(Span<const double>(each), done, truncated);
  }));
}

void fail(PyEvent &self, std::string message) {
  self.expectUnanswered();
  inputsOf(self);
  self.answered = true;
  check(withoutGil([&] { return self.event.fail({Code::PolicyFailed, std::move(message)}); }));
}

using Limits = std::map<std::string, nb::object>;

/// The limits of ServerOptions by their names in Python.
void setLimits(ServerOptions &options, const Limits &limits) {
  using Count = uint32_t ServerOptions::*;
  using Size = uint64_t ServerOptions::*;
  static const std::map<std::string, std::variant<Count, Size>> Known = {
      {"max_connections", &ServerOptions::maxConnections},
      {"max_streams", &ServerOptions::maxStreams},
      {"max_queued", &ServerOptions::maxQueued},
      {"max_events", &ServerOptions::maxEvents},
      {"max_tensors", &ServerOptions::maxTensors},
      {"turn_frames", &ServerOptions::turnFrames},
      {"max_message", &ServerOptions::maxMessage},
      {"max_queued_bytes", &ServerOptions::maxQueuedBytes},
      {"max_control", &ServerOptions::maxControl},
      {"max_connection_memory", &ServerOptions::maxConnectionMemory},
      {"max_memory", &ServerOptions::maxMemory},
      {"max_unsent", &ServerOptions::maxUnsent},
      {"turn_bytes", &ServerOptions::turnBytes}};
  for (const auto &[name, value] : limits) {
    const auto known = Known.find(name);
    if (name == "handshake_time")
      options.handshakeTime = durationOf(value);
    else if (known == Known.end())
      throw nb::type_error(("a server has no limit '" + name + "'").c_str());
    else
      std::visit(
          [&, name = name, given = value](auto member) {
            using Number = std::decay_t<decltype(options.*member)>;
            constexpr uint64_t Most =
                std::min<uint64_t>(std::numeric_limits<Number>::max(), INT64_MAX);
            options.*member = static_cast<Number>(integerOf(given, name, 0, int64_t(Most)));
          },
          known->second);
  }
}

void listen(PyServer *self, const std::string &uri, std::optional<Signature> signature,
            Metadata metadata, bool environment,
            std::vector<std::pair<std::string, Signature>> agents, bool stateless,
            const Limits &limits) {
  ServerOptions options;
  setLimits(options, limits);
  for (auto &[name, own] : agents)
    options.agents.push_back({std::move(name), std::move(own)});
  options.environment = environment;
  options.stateless = stateless;
  options.signature = std::move(signature);
  options.metadata = std::move(metadata);
  Expected<Server> server = withoutGil([&] { return Server::listen(uri, std::move(options)); });
  check(server.status());
  new (self) PyServer();
  self->server.emplace(std::move(*server));
  self->address = self->server->uri();
}

} // namespace

void bindServer(nb::module_ &m) {
  nb::class_<Context>(m, "CallContext",
                      "Who asks, and about what: the second argument of a policy.")
      .def_ro("episode", &Context::episode, "The id by which a trainer recognizes the compilation")
      .def_ro("unit", &Context::unit, "What is compiled, in the compiler's words: module, function")
      .def_ro("agent", &Context::agent, "Which of several agents is asked; \"\" for the only one")
      .def_ro("connection", &Context::connection, "The number of the connection, from 1")
      .def_ro("stream", &Context::stream, "The number of the stream on its connection")
      .def_ro("step", &Context::step, "Requests answered in this episode before")
      .def("__repr__", [](const Context &c) {
        return "<mlbridge.CallContext connection=" + std::to_string(c.connection) +
               " stream=" + std::to_string(c.stream) + " step=" + std::to_string(c.step) +
               " episode='" + c.episode + "' unit='" + c.unit + "'>";
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
      .def_ro("over_limit", &ServerStatistics::overLimit,
              "Connections closed because they went beyond a limit")
      .def_ro("events_dropped", &ServerStatistics::eventsDropped,
              "Events of episodes dropped because too many were waiting")
      .def_ro("bytes_kept", &ServerStatistics::bytesKept, "Kept for all connections at the moment")
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
              self.context = newContext(self.event);
            return self.context;
          },
          nb::sig("def context(self) -> CallContext"), "Who asks.")
      .def_prop_ro(
          "reward", [](const PyEvent &self) { return self.event.reward(); }, "Of a reward.")
      .def_prop_ro(
          "truncated", [](const PyEvent &self) { return self.event.isTruncated(); },
          "Of the end of an episode: a limit ended it, not a terminal state.")
      .def_prop_ro(
          "outcome", [](const PyEvent &self) { return statusObject(self.event.outcome()); },
          "How the compiler says that the episode ended.")
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
           "Answers with a mapping of outputs, or with the value of the only one. A step also "
           "takes its reward; with `done` the outputs are the last observation, or None. With "
           "several agents, `agent` acts next and the outputs are its observation; `rewards` has "
           "each one's since it last acted.")
      .def("send_last", &sendLast, nb::arg("outputs"), nb::arg("agent").none() = nb::none(),
           "Before the reply that ends an episode: what one more agent sees at its end.")
      .def("fail", &fail, nb::arg("message"), "Answers with an error; the server keeps running.");

  nb::class_<PyServer> server(m, "_Server");
  server
      .def("__init__", &listen, nb::arg("uri"), nb::arg("signature").none(), nb::arg("metadata"),
           nb::arg("environment"), nb::arg("agents"), nb::arg("stateless"), nb::arg("limits"))
      .def_ro("address", &PyServer::address,
              "Where it listens, with the port that the system chose.")
      .def_prop_ro(
          "agents", [](PyServer &self) { return signaturesOf(self.open().agents()); },
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
      .def("_serve_batches", &serveBatches, nb::arg("policy"), nb::arg("on_event").none(),
           nb::arg("stop").none(), nb::arg("max_batch"), nb::arg("max_wait"), nb::arg("pad").none())
      .def("_next", &nextEvent, nb::arg("timeout").none())
      .def(
          "stop",
          [](PyServer &self) {
            if (self.server && !self.fork.isForeign())
              self.server->stop();
          },
          "Ends serve() soon, and every wait for an event. From any thread or signal handler.")
      .def(
          "drain",
          [](PyServer &self, nb::handle timeout) {
            const Duration most = durationOf(timeout);
            if (self.server && !self.fork.isForeign())
              self.server->drain(most);
          },
          nb::arg("timeout"),
          nb::sig("def drain(self, timeout: float | str | datetime.timedelta) -> None"),
          "Ends serve() once no compiler needs the server, at the latest after `timeout`: new "
          "compilers are refused, and health says that it is not serving. A connection ends when "
          "nothing on it waits and no episode is open; of a stateless server, episodes don't "
          "count. From any thread or signal handler.")
      .def("close", &PyServer::close,
           "Says goodbye to all compilers and removes the socket or FIFOs. May be called twice.");
  defineWith(server);
}

} // namespace mlbridge::python
