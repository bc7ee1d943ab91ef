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
  void close() {
    if (!driver)
      return;
    Driver gone = std::move(*driver);
    driver.reset();
    if (fork.isForeign()) {
      abandon(std::move(gone)); // the connection is the parent's
      return;
    }
    nb::gil_scoped_release release; // saying so may write
    Driver ended = std::move(gone);
  }

  std::optional<Driver> driver;
  std::string uri;
  ForkGuard fork;
  std::atomic<bool> busy{false};
};

class ActionOutputs final : public Outputs {
public:
  explicit ActionOutputs(Driver &driver) : driver_(driver) {}
  const Signature &signature() override { return driver_.signature(); }
  TensorView output(size_t index) override { return driver_.action(index); }
  Expected<TensorView> resizeOutput(size_t index, Span<const int64_t> shape) override {
    return driver_.resizeAction(index, shape);
  }

private:
  Driver &driver_;
};

void openDriver(PyDriver *self, const std::string &uri, nb::handle deadline, std::string agent,
                std::string episode) {
  DriverOptions options;
  if (!deadline.is_none())
    options.deadline = Duration(nanoseconds(deadline));
  options.agent = std::move(agent);
  options.episode = std::move(episode);
  std::optional<Expected<Driver>> opened;
  {
    nb::gil_scoped_release release;
    opened.emplace(Driver::open(uri, options));
  }
  check(opened->status());
  new (self) PyDriver(std::move(**opened), uri);
}

/// Arrays of their own: what a trainer keeps must not change with the next step.
nb::dict observationOf(Driver &driver) {
  nb::dict observation;
  if (driver.isDone() && !driver.showLast(driver.agent()))
    return observation;
  const Signature &signature = driver.signature();
  for (size_t i = 0; i < signature.inputs.size(); ++i)
    observation[signature.inputs[i].name.c_str()] =
        nb::steal<nb::object>(newCopy(driver.observation(i)));
  return observation;
}

nb::dict reset(PyDriver &self, const std::string &context, uint64_t seed) {
  Driver &driver = self.open();
  const Exclusive exclusive(self.busy, "the driver");
  Status status;
  {
    nb::gil_scoped_release release;
    status = driver.reset(context, seed);
  }
  check(status);
  return observationOf(driver);
}

nb::tuple step(PyDriver &self, nb::handle action) {
  Driver &driver = self.open();
  const Exclusive exclusive(self.busy, "the driver");
  ActionOutputs outputs(driver);
  if (Status stored = storeOutputs(action.ptr(), outputs); !stored)
    raise({Code::InvalidArgument, stored.message()});
  Status status;
  {
    nb::gil_scoped_release release;
    status = driver.step();
  }
  check(status);
  return nb::make_tuple(observationOf(driver), driver.reward(), driver.isDone());
}

} // namespace

void bindDriver(nb::module_ &m) {
  nb::class_<PyDriver>(m, "_Driver")
      .def("__init__", &openDriver, nb::arg("uri"), nb::arg("deadline").none(), nb::arg("agent"),
           nb::arg("episode"))
      .def_prop_ro(
          "uri", [](const PyDriver &self) { return nb::steal<nb::object>(toPython(self.uri)); },
          "Where the environment is.")
      .def_prop_ro(
          "signature", [](PyDriver &self) { return self.open().signature(); },
          "Of the agent that acts next: the inputs are the observation, the outputs the action.")
      .def_prop_ro(
          "agents",
          [](PyDriver &self) {
            nb::dict agents;
            for (const AgentSpec &agent : self.open().agents())
              agents[nb::steal<nb::object>(toPython(agent.name))] = nb::cast(agent.signature);
            return agents;
          },
          "The signatures of several agents by name.")
      .def_prop_ro(
          "agent",
          [](PyDriver &self) {
            const Driver &driver = self.open();
            const Span<const AgentSpec> agents = driver.agents();
            return nb::steal<nb::object>(
                toPython(agents.empty() ? std::string() : agents[driver.agent()].name));
          },
          "The name of the agent that acts next; \"\" if there is only one.")
      .def_prop_ro(
          "rewards",
          [](PyDriver &self) {
            nb::dict rewards;
            const Driver &driver = self.open();
            const Span<const AgentSpec> agents = driver.agents();
            for (size_t i = 0; i < agents.size(); ++i)
              rewards[nb::steal<nb::object>(toPython(agents[i].name))] = driver.reward(i);
            if (agents.empty())
              rewards[""] = driver.reward();
            return rewards;
          },
          "What each agent has been given since it acted.")
      .def_prop_ro(
          "last_observations",
          [](PyDriver &self) {
            nb::dict observations;
            Driver &driver = self.open();
            const Exclusive exclusive(self.busy, "the driver");
            const size_t acted = driver.agent();
            const Span<const AgentSpec> agents = driver.agents();
            for (size_t i = 0; i < std::max<size_t>(agents.size(), 1); ++i)
              if (driver.showLast(i))
                observations[nb::steal<nb::object>(toPython(
                    agents.empty() ? std::string() : agents[i].name))] = observationOf(driver);
            driver.showLast(acted);
            return observations;
          },
          "Once the episode is done: what the environment gave agents to see at its end.")
      .def_prop_ro(
          "truncated", [](PyDriver &self) { return self.open().isTruncated(); },
          "Whether a limit ended the episode, and not its last state.")
      .def_prop_ro(
          "metadata",
          [](PyDriver &self) {
            nb::dict values;
            for (const auto &[key, value] : self.open().metadata())
              values[nb::steal<nb::object>(toPython(key))] = nb::steal<nb::object>(toPython(value));
            return values;
          },
          "What the environment says of itself.")
      .def_prop_ro(
          "done", [](PyDriver &self) { return self.open().isDone(); },
          "Whether the episode has ended.")
      .def_prop_ro(
          "steps", [](PyDriver &self) { return self.open().steps(); },
          "Actions applied in this episode.")
      .def_prop_ro(
          "closed", [](const PyDriver &self) { return !self.driver; },
          "Whether close() was called.")
      .def("_reset", &reset, nb::arg("context"), nb::arg("seed"))
      .def("_step", &step, nb::arg("action"))
      .def("close", &PyDriver::close, "Leaves; the environment is told. May be called twice.");
}

} // namespace mlbridge::python
