// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What stands in for four trained networks: a rule for each agent, whose numbers are exact. Called
// with a FunctionCall in process, or with a server's Event.
#ifndef REGISTER_ALLOCATION_POLICIES_H
#define REGISTER_ALLOCATION_POLICIES_H

#include <mlbridge/function.h>
#include <mlbridge/server.h>

#include <string_view>

namespace policies {

template <typename T, typename Call>
mlbridge::Span<const T> in(const Call &call, std::string_view name) {
  const int index = call.signature().findInput(name);
  if (index < 0)
    return {};
  const mlbridge::Span<T> all = call.input(static_cast<size_t>(index)).template as<T>();
  return {all.data(), all.size()};
}

/// The allowed choice with the highest score, the first of equals; `otherwise` if none is allowed.
template <typename Score>
int64_t best(mlbridge::Span<const bool> mask, int64_t otherwise, const Score &score) {
  int64_t at = otherwise;
  float highest = 0;
  for (size_t i = 0; i < mask.size(); ++i)
    if (mask[i] && (at == otherwise || score(i) > highest)) {
      at = static_cast<int64_t>(i);
      highest = score(i);
    }
  return at;
}

template <typename Call> int64_t decide(const Call &call, std::string_view agent) {
  const auto mask = in<bool>(call, "action_mask");
  const auto state = in<float>(call, "state");
  const auto properties = in<float>(call, "node_properties");
  if (agent == "select_node") {
    const auto weights = in<float>(call, "spill_weights"), notes = in<float>(call, "annotations");
    return best(mask, -1, [&](size_t i) { return 4 * weights[i] + state[i * 100] - notes[3 * i]; });
  }
  if (agent == "select_task")
    return mask[1] && properties[3] > 3 && (properties[1] < 2 || state[7] > 1) ? 1 : 0;
  if (agent == "colour_node") {
    bool registers[64] = {};
    std::copy(mask.begin() + 1, mask.end(), registers + 1);
    return best({registers, mask.size()}, 0, [&](size_t i) { return state[i]; });
  }
  const auto points = in<float>(call, "use_points");
  return best(mask, -1, [&](size_t i) { return points[2 * i] - points[2 * i + 1] / 16; });
}

/// As "function:NAME", for all four agents.
inline mlbridge::Status registerAs(const char *name) {
  const auto rules = [](mlbridge::FunctionCall &call) {
    call.output(0).as<int64_t>()[0] = decide(call, call.context().agent);
    return mlbridge::Status();
  };
  return mlbridge::registerFunction(name, [rules](const mlbridge::Uri &) {
    return mlbridge::FunctionModel{{}, {}, [rules] { return rules; }};
  });
}

/// In a server.
inline void answer(mlbridge::Event &event) {
  if (event.kind() != mlbridge::EventKind::Request)
    return;
  event.output(0).as<int64_t>()[0] = decide(event, event.context().agent);
  (void)event.reply();
}

} // namespace policies

#endif
