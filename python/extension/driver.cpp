// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The driver's side of an environment that a compiler serves, from Python.
#include "policy.h"

#include <mlbridge/driver.h>

namespace mlbridge::python {
namespace {

struct PyDriver {
  PyDriver(Driver opened, std::string address)
      : driver(std::move(opened)), uri(std::move(address)) {}
  ~PyDriver() { close(); }

  Driver &open() {
    fork.check("the driver");
    if (!driver)
      raise({Code::Closed, "the driver is closed"});
    return *driver;
  }
  /// While a call runs, it is done when that ends.
  void close() {
    closes = busy.load(std::memory_order_acquire);
    if (!driver || closes)
      return;
    Driver gone = std::move(*driver);
    driver.reset();
    end(std::move(gone), fork);
  }

  std::optional<Driver> driver;
  std::string uri;
  ForkGuard fork;
  std::atomic<bool> busy{false};
  bool closes = false; ///< guarded by the GIL
};

/// A call that releases the GIL.
struct Call {
  explicit Call(PyDriver &self) : self(self), exclusive(self.busy, "the driver") {}
  ~Call() {
    exclusive.end();
    if (self.closes)
      self.close();
  }
  Call(const Call &) = delete;

  PyDriver &self;
  Exclusive exclusive;
};

using ActionOutputs = TensorsOf<Driver, &Driver::action, &Driver::resizeAction>;

void openDriver(PyDriver *self, const std::string &uri, const std::optional<Time> &deadline,
                std::string agent, std::string episode) {
  DriverOptions options;
  if (deadline)
    options.deadline = durationOf(*deadline);
  options.agent = std::move(agent);
  options.episode = std::move(episode);
  Expected<Driver> opened = withoutGil([&] { return Driver::open(uri, options); });
  check(opened.status());
  new (self) PyDriver(std::move(*opened), uri);
}

/// Arrays of their own: what a trainer keeps must not change with the next step.
Arrays observationOf(Driver &driver) {
  if (driver.isDone() && !driver.showLast(driver.agent()))
    return {};
  return arraysOf(driver.signature().inputs,
                  [&](size_t i) { return newCopy(driver.observation(i)); });
}

Arrays reset(PyDriver &self, const std::string &unit, uint64_t seed) {
  Driver &driver = self.open();
  const Call call(self);
  check(withoutGil([&] { return driver.reset(unit, seed); }));
  return observationOf(driver);
}

using Step = nb::typed<nb::tuple, Arrays, double, bool>;

Step step(PyDriver &self, const nb::object &action) {
  Driver &driver = self.open();
  const Call call(self);
  ActionOutputs outputs(driver);
  if (Status stored = storeOutputs(action.ptr(), driver.signature(), outputs); !stored)
    raise({Code::InvalidArgument, stored.message()});
  check(withoutGil([&] { return driver.step(); }));
  return nb::steal<Step>(
      nb::make_tuple(observationOf(driver), driver.reward(), driver.isDone()).release());
}

nb::object nameOf(const Driver &driver, size_t agent) {
  const Span<const AgentSpec> agents = driver.agents();
  return nb::cast(agents.empty() ? std::string() : agents[agent].name);
}

/// The number of agents with rewards and observations: the one without a name as well.
size_t agentCount(const Driver &driver) { return std::max<size_t>(driver.agents().size(), 1); }

} // namespace

void bindDriver(nb::module_ &m) {
  nb::class_<PyDriver> driver(m, "_Driver");
  driver
      .def("__init__", &openDriver, nb::arg("uri"), nb::arg("deadline").none(), nb::arg("agent"),
           nb::arg("episode"))
      .def_ro("uri", &PyDriver::uri, "Where the environment is.")
      .def_prop_ro(
          "signature", [](PyDriver &self) { return self.open().signature(); },
          "Of the agent that acts next: the inputs are the observation, the outputs the action.")
      .def_prop_ro(
          "agents", [](PyDriver &self) { return signaturesOf(self.open().agents()); },
          "The signatures of several agents by name.")
      .def_prop_ro(
          "agent",
          [](PyDriver &self) {
            const Driver &driver = self.open();
            return nb::borrow<nb::str>(nameOf(driver, driver.agent()));
          },
          "The name of the agent that acts next; \"\" if there is only one.")
      .def_prop_ro(
          "rewards",
          [](PyDriver &self) {
            nb::typed<nb::dict, nb::str, double> rewards;
            const Driver &driver = self.open();
            for (size_t i = 0; i < agentCount(driver); ++i)
              rewards[nameOf(driver, i)] =
                  driver.agents().empty() ? driver.reward() : driver.reward(i);
            return rewards;
          },
          "The sum of each agent's rewards since it last acted.")
      .def_prop_ro(
          "last_observations",
          [](PyDriver &self) {
            nb::typed<nb::dict, nb::str, Arrays> observations;
            Driver &driver = self.open();
            const Call call(self);
            const size_t acted = driver.agent();
            for (size_t i = 0; i < agentCount(driver); ++i)
              if (driver.showLast(i))
                observations[nameOf(driver, i)] = observationOf(driver);
            driver.showLast(acted);
            return observations;
          },
          "Once the episode is done: what the environment gave agents to see at its end.")
      .def_prop_ro(
          "truncated", [](PyDriver &self) { return self.open().isTruncated(); },
          "Whether a limit ended the episode, not a terminal state.")
      .def_prop_ro(
          "metadata", [](PyDriver &self) { return self.open().metadata(); },
          "What the environment says of itself.")
      .def_prop_ro(
          "done", [](PyDriver &self) { return self.open().isDone(); },
          "Whether the episode has ended.")
      .def_prop_ro(
          "steps", [](PyDriver &self) { return self.open().steps(); },
          "Actions applied in this episode.")
      .def_prop_ro(
          "closed", [](const PyDriver &self) { return !self.driver || self.closes; },
          "Whether close() was called.")
      .def("_reset", &reset, nb::arg("unit"), nb::arg("seed"))
      .def("_step", &step, nb::arg("action"))
      .def(
          "close", &PyDriver::close,
          "Disconnects; the environment is told. May be called twice. While another thread is in a "
          "call, this returns, and it is done when that call ends.");
  defineWith(driver);
}

} // namespace mlbridge::python
