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
    (void)ended(*driver, Status(Code::InvalidArgument,
                                "there is no tensor '" + textOf(name) + "' of agent number " +
                                    std::to_string(driver->driver->agent())));
  return index;
}

static void *shown(mlbridge_driver *driver, const TensorView &view, mlbridge_type type,
                   uint64_t *count) {
  void *data = numbers(view, type, count);
  (void)ended(*driver, data ? Status()
                            : Status(Code::InvalidArgument,
                                     std::string("the tensor has elements of ") + name(view.type)));
  return data;
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
  if (!driver || !driver->driver || !key)
    return nullptr;
  const Metadata &all = driver->driver->metadata();
  const auto found = all.find(key);
  return found == all.end() ? nullptr : found->second.c_str();
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

mlbridge_code mlbridge_driver_reset(mlbridge_driver *driver, const char *context, uint64_t seed) {
  if (!driver)
    return MLBRIDGE_INVALID_ARGUMENT;
  return driver->driver ? ended(*driver, driver->driver->reset(textOf(context), seed))
                        : codeOf(driver->last);
}
mlbridge_code mlbridge_driver_step(mlbridge_driver *driver) {
  if (!driver)
    return MLBRIDGE_INVALID_ARGUMENT;
  return driver->driver ? ended(*driver, driver->driver->step()) : codeOf(driver->last);
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
  if (count)
    *count = 0;
  if (!driver || !driver->driver)
    return nullptr;
  const int index = indexOf(driver, driver->driver->signature().outputs, name);
  return index < 0 ? nullptr
                   : shown(driver, driver->driver->action(static_cast<size_t>(index)), type, count);
}
void *mlbridge_driver_resize_action(mlbridge_driver *driver, const char *name, mlbridge_type type,
                                    const int64_t *shape, uint32_t rank, uint64_t *count) {
  if (count)
    *count = 0;
  if (!driver || !driver->driver)
    return nullptr;
  const int index = indexOf(driver, driver->driver->signature().outputs, name);
  if (index < 0)
    return nullptr;
  Expected<TensorView> view = driver->driver->resizeAction(
      static_cast<size_t>(index), Span<const int64_t>(shape, shape ? rank : 0));
  if (view)
    return shown(driver, *view, type, count);
  (void)ended(*driver, view.status());
  return nullptr;
}
mlbridge_code mlbridge_driver_set_action_string(mlbridge_driver *driver, const char *name,
                                                uint64_t index, mlbridge_string text) {
  if (!driver || !driver->driver || (!text.data && text.size))
    return MLBRIDGE_INVALID_ARGUMENT;
  const int number = indexOf(driver, driver->driver->signature().outputs, name);
  if (number < 0)
    return codeOf(driver->last);
  const Span<std::string> all =
      driver->driver->action(static_cast<size_t>(number)).as<std::string>();
  if (index >= all.size())
    return ended(*driver,
                 Status(Code::InvalidArgument, "output '" + textOf(name) + "' has " +
                                                   std::to_string(all.size()) + " strings"));
  all[index].assign(text.data ? text.data : "", text.size);
  return ended(*driver, Status());
}

const void *mlbridge_driver_observation(mlbridge_driver *driver, const char *name,
                                        mlbridge_type type, uint64_t *count) {
  if (count)
    *count = 0;
  const std::optional<TensorView> view = observed(driver, name);
  return view ? shown(driver, *view, type, count) : nullptr;
}
const int64_t *mlbridge_driver_observation_shape(mlbridge_driver *driver, const char *name,
                                                 uint32_t *rank) {
  const std::optional<TensorView> view = observed(driver, name);
  if (rank)
    *rank = view ? static_cast<uint32_t>(view->shape.size()) : 0;
  if (!view)
    return nullptr;
  return view->shape.data() ? view->shape.data() : static_cast<const int64_t *>(nothing());
}
mlbridge_code mlbridge_driver_observation_string(mlbridge_driver *driver, const char *name,
                                                 uint64_t index, mlbridge_string *text) {
  if (!driver || !text)
    return MLBRIDGE_INVALID_ARGUMENT;
  const std::optional<TensorView> view = observed(driver, name);
  if (!view)
    return codeOf(driver->last);
  const Span<std::string> all = view->as<std::string>();
  if (index >= all.size())
    return ended(*driver,
                 Status(Code::InvalidArgument, "input '" + textOf(name) + "' has " +
                                                   std::to_string(all.size()) + " strings"));
  *text = {all[index].data(), all[index].size()};
  return ended(*driver, Status());
}
bool mlbridge_driver_show_last(mlbridge_driver *driver, uint64_t agent) {
  return driver && driver->driver && driver->driver->showLast(agent);
}

} // extern "C"
