// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Drivers of environments.
#include "c/handles.h"

#include <mlbridge/driver.h>

using namespace mlbridge;
using namespace mlbridge::c;

struct mlbridge_driver {
  std::optional<Driver> driver;
  Status last;
  std::vector<std::unique_ptr<ShownSignature>> signatures;
};

static mlbridge_code ended(mlbridge_driver &driver, Status status) {
  driver.last = std::move(status);
  return codeOf(driver.last);
}

/// The index of a tensor of the agent whose turn it is; -1, with the code, if there is none.
static int indexOf(mlbridge_driver *driver, const std::vector<TensorSpec> &specs,
                   const char *name) {
  const int index = find(specs, name);
  if (index < 0)
    (void)ended(*driver, makeError(Code::InvalidArgument, "there is no tensor '", textOf(name),
                                   "' of agent number ", driver->driver->agent()));
  return index;
}

/// The numbers of a tensor, if there is one.
static void *shown(mlbridge_driver *driver, const std::optional<TensorView> &view,
                   mlbridge_type type, uint64_t *count) {
  if (count)
    *count = 0;
  if (!view)
    return nullptr;
  void *data = numbers(*view, type, count);
  (void)ended(*driver, data ? Status()
                            : makeError(Code::InvalidArgument, "the tensor has elements of ",
                                        name(view->type), ", not of ", mlbridge_type_name(type)));
  return data;
}

/// The action with this name, as `get` gives it, or null.
template <typename Get>
static std::optional<TensorView> actionOf(mlbridge_driver *driver, const char *name,
                                          const Get &get) {
  if (!driver || !driver->driver)
    return std::nullopt;
  const int index = indexOf(driver, driver->driver->signature().outputs, name);
  if (index < 0)
    return std::nullopt;
  const Expected<TensorView> view = get(static_cast<size_t>(index));
  if (view)
    return *view;
  (void)ended(*driver, view.status());
  return std::nullopt;
}

/// The observation, or null once there is none.
static std::optional<TensorView> observed(mlbridge_driver *driver, const char *name) {
  if (!driver || !driver->driver)
    return std::nullopt;
  const int index = indexOf(driver, driver->driver->signature().inputs, name);
  if (index < 0)
    return std::nullopt;
  const TensorView view = driver->driver->observation(static_cast<size_t>(index));
  if (!view.data && view.shape.empty()) {
    (void)ended(*driver, Status(Code::InvalidArgument, "there is no observation"));
    return std::nullopt;
  }
  return view;
}

template <typename F> static mlbridge_code call(mlbridge_driver *driver, const F &body) {
  if (!driver || !driver->driver)
    return mlbridge_driver_code(driver);
  return ended(*driver, body(*driver->driver));
}

/// The memory that an action of fixed shape is written to.
static std::optional<TensorView> actionOf(mlbridge_driver *driver, const char *name) {
  return actionOf(driver, name, [&](size_t index) -> Expected<TensorView> {
    return driver->driver->action(index);
  });
}

extern "C" {

mlbridge_driver *mlbridge_driver_open(const char *uri, int64_t deadline) {
  auto *handle = new mlbridge_driver;
  DriverOptions options;
  if (deadline)
    options.deadline = Duration(deadline);
  Expected<Driver> driver = Driver::open(textOf(uri), options);
  handle->last = driver.status();
  if (!driver)
    return handle;
  handle->driver.emplace(std::move(*driver));
  if (handle->driver->agents().empty())
    handle->signatures.push_back(std::make_unique<ShownSignature>(handle->driver->signature()));
  for (const AgentSpec &agent : handle->driver->agents())
    handle->signatures.push_back(std::make_unique<ShownSignature>(agent.signature));
  return handle;
}

void mlbridge_driver_close(mlbridge_driver *driver) { delete driver; }

mlbridge_code mlbridge_driver_code(const mlbridge_driver *driver) {
  return driver ? codeOf(driver->last) : MLBRIDGE_INVALID_ARGUMENT;
}
const char *mlbridge_driver_message(const mlbridge_driver *driver) {
  return driver ? driver->last.message().c_str() : "no driver was given";
}

const char *mlbridge_driver_metadata(const mlbridge_driver *driver, const char *key) {
  return driver && driver->driver ? valueOf(driver->driver->metadata(), key) : nullptr;
}
uint64_t mlbridge_driver_agents(const mlbridge_driver *driver) {
  return driver ? driver->signatures.size() : 0;
}
const char *mlbridge_driver_agent_name(const mlbridge_driver *driver, uint64_t agent) {
  if (agent >= mlbridge_driver_agents(driver))
    return nullptr;
  const Span<const AgentSpec> agents = driver->driver->agents();
  return agents.empty() ? "" : agents[agent].name.c_str();
}
const mlbridge_signature *mlbridge_driver_signature(const mlbridge_driver *driver, uint64_t agent) {
  return agent < mlbridge_driver_agents(driver) ? driver->signatures[agent]->get() : nullptr;
}

mlbridge_code mlbridge_driver_reset(mlbridge_driver *driver, const char *unit, uint64_t seed) {
  return call(driver, [&](Driver &d) { return d.reset(textOf(unit), seed); });
}
mlbridge_code mlbridge_driver_step(mlbridge_driver *driver) {
  return call(driver, [](Driver &d) { return d.step(); });
}

uint64_t mlbridge_driver_agent(const mlbridge_driver *driver) {
  return driver && driver->driver ? driver->driver->agent() : 0;
}
bool mlbridge_driver_is_done(const mlbridge_driver *driver) {
  return driver && driver->driver && driver->driver->isDone();
}
bool mlbridge_driver_is_truncated(const mlbridge_driver *driver) {
  return driver && driver->driver && driver->driver->isTruncated();
}
double mlbridge_driver_reward(const mlbridge_driver *driver, uint64_t agent) {
  return driver && driver->driver ? driver->driver->reward(agent) : 0;
}
uint64_t mlbridge_driver_steps(const mlbridge_driver *driver) {
  return driver && driver->driver ? driver->driver->steps() : 0;
}

void *mlbridge_driver_action(mlbridge_driver *driver, const char *name, mlbridge_type type,
                             uint64_t *count) {
  return shown(driver, actionOf(driver, name), type, count);
}
void *mlbridge_driver_resize_action(mlbridge_driver *driver, const char *name, mlbridge_type type,
                                    const int64_t *shape, uint32_t rank, uint64_t *count) {
  const auto resize = [&](size_t index) {
    return driver->driver->resizeAction(index, {shape, shape ? rank : 0});
  };
  return shown(driver, actionOf(driver, name, resize), type, count);
}
mlbridge_code mlbridge_driver_set_action_string(mlbridge_driver *driver, const char *name,
                                                uint64_t index, mlbridge_string text) {
  const std::optional<TensorView> view = actionOf(driver, name);
  return view ? ended(*driver, setString(view, name, index, text)) : mlbridge_driver_code(driver);
}

const void *mlbridge_driver_observation(mlbridge_driver *driver, const char *name,
                                        mlbridge_type type, uint64_t *count) {
  return shown(driver, observed(driver, name), type, count);
}
const int64_t *mlbridge_driver_observation_shape(mlbridge_driver *driver, const char *name,
                                                 uint32_t *rank) {
  return shapeOf(observed(driver, name), rank);
}
mlbridge_code mlbridge_driver_observation_string(mlbridge_driver *driver, const char *name,
                                                 uint64_t index, mlbridge_string *text) {
  const std::optional<TensorView> view = observed(driver, name);
  return view ? ended(*driver, getString(view, name, index, text)) : mlbridge_driver_code(driver);
}
bool mlbridge_driver_show_last(mlbridge_driver *driver, uint64_t agent) {
  return driver && driver->driver && driver->driver->showLast(agent);
}

} // extern "C"
