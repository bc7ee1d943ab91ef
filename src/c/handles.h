// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What is behind the pointers of the C interface.
#ifndef MLBRIDGE_C_HANDLES_H
#define MLBRIDGE_C_HANDLES_H

#include "c/values.h"

#include <mlbridge/environment.h>
#include <mlbridge/function.h>
#include <mlbridge/model.h>
#include <mlbridge/server.h>

#include <memory>
#include <optional>

struct mlbridge_model {
  mlbridge::Model model;
  mlbridge::Status wrong;                             ///< a bad call, before the library was asked
  std::unique_ptr<mlbridge::c::ShownSignature> shown; ///< its own
  std::unique_ptr<mlbridge::c::ShownSignature> bound; ///< of the last bind
};

struct mlbridge_runner {
  mlbridge_runner() : runner(own) {}
  explicit mlbridge_runner(mlbridge::Runner &borrowed) : runner(borrowed) {}
  mlbridge::Runner own;
  mlbridge::Runner &runner; ///< own, or the library's during a callback
  mlbridge::Status wrong;   ///< the same
  std::unique_ptr<mlbridge::c::ShownSignature> shown = nullptr;
};

struct mlbridge_call {
  mlbridge::FunctionCall &call;
  std::string message; ///< of fail
  mutable std::unique_ptr<mlbridge::c::ShownSignature> shown = nullptr;
};

struct mlbridge_server {
  std::optional<mlbridge::Server> server;
  mlbridge::Status last;
};

struct mlbridge_agents {
  mlbridge::Agents agents;
  mlbridge::Status wrong;   ///< a bad call
  mlbridge::Status current; ///< whose message was asked for
};

namespace mlbridge::c {

OpenOptions optionsOf(const mlbridge_open_options *stated, Status &wrong);
/// Errors: InvalidArgument.
Status readMetadata(const char *const *pairs, uint64_t size, Metadata &to);
Status readAgents(const mlbridge_agent_spec *agents, uint64_t size, std::vector<AgentSpec> &to);
/// The data of a view of numbers of this type; null if it is another.
void *numbers(const TensorView &view, mlbridge_type type, uint64_t *count);
/// The value of a key, or null.
inline const char *valueOf(const Metadata &all, const char *key) {
  const auto found = key ? all.find(key) : all.end();
  return found == all.end() ? nullptr : found->second.c_str();
}
/// Fills the part of a result that the caller knows; nothing if it states no size.
template <typename T> void giveResult(T *to, T result) {
  if (!to || to->size < sizeof to->size)
    return;
  result.size = to->size;
  std::memcpy(to, &result, std::min<uint64_t>(to->size, sizeof result));
}

} // namespace mlbridge::c

#endif
