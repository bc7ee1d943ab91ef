// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "environment.h"

#include "graph.h"
#include "shared/agents.h"

namespace mlbridge::loop_distribution {

namespace {

int64_t first(Span<const bool> Mask) {
  return std::find(Mask.begin(), Mask.end(), true) - Mask.begin();
}

/// Nodes that the vectorizer takes come together, and so do those that it refuses; a new loop
/// begins between them.
Status heuristic(FunctionCall &Call) {
  const auto Mask = Call.in<bool>("action_mask");
  const auto Previous = Call.in<float>("previous");
  int64_t &Answer = Call.output(0).as<int64_t>()[0];
  if (Call.context().agent == "node") {
    const auto Nodes = Call.in<float>("nodes");
    Answer = first(Mask);
    for (size_t I = Mask.size(); I-- > 0;)
      if (Mask[I] && Nodes[I * Features + Blocks] == Previous[Blocks])
        Answer = static_cast<int64_t>(I);
  } else {
    Answer = Call.in<float>("node")[Blocks] != Previous[Blocks] ? 1 : 0;
  }
  return Status();
}

/// The first node, and always this answer.
Function constant(int64_t Distributes) {
  return [Distributes](FunctionCall &Call) {
    Call.output(0).as<int64_t>()[0] =
        Call.context().agent == "node" ? first(Call.in<bool>("action_mask")) : Distributes;
    return Status();
  };
}

} // namespace

Status registerAgents() {
  const std::pair<const char *, Function> Agents[] = {
      {"heuristic", heuristic}, {"always", constant(1)}, {"never", constant(0)}};
  for (const auto &[Name, Answer] : Agents)
    if (Status Registered = plugin::registerAgent(Name, Answer); !Registered)
      return Registered;
  return plugin::registerRandomAgent();
}

} // namespace mlbridge::loop_distribution
