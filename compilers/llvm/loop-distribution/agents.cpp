// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "agents.h"
#include "graph.h"

#include <mlbridge/function.h>
#include <mlbridge/uri.h>

#include <algorithm>
#include <random>

namespace mlbridge::distribution {

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

Expected<FunctionModel> stateless(const Uri &From, const Function &Its) {
  if (Status Known = From.allowOnly({}); !Known)
    return Known;
  return FunctionModel{{}, {}, [Its] { return Its; }};
}

/// The first node, and always this answer.
Function constant(int64_t Distributes) {
  return [Distributes](FunctionCall &Call) {
    Call.output(0).as<int64_t>()[0] =
        Call.context().agent == "node" ? first(Call.in<bool>("action_mask")) : Distributes;
    return Status();
  };
}

Expected<FunctionModel> random(const Uri &From) {
  if (Status Known = From.allowOnly({"seed"}); !Known)
    return Known;
  const Expected<uint64_t> Seed = From.number("seed", 0);
  if (!Seed)
    return Seed.status();
  return FunctionModel{{}, {}, [Seed = *Seed]() -> Function {
                         return [Generator = std::mt19937_64(Seed)](FunctionCall &Call) mutable {
                           const auto Mask = Call.in<bool>("action_mask");
                           auto Skip =
                               Generator() % static_cast<uint64_t>(std::max<int64_t>(
                                                 std::count(Mask.begin(), Mask.end(), true), 1));
                           int64_t &Answer = Call.output(0).as<int64_t>()[0];
                           for (size_t I = 0; I < Mask.size(); ++I)
                             if (Mask[I] && Skip-- == 0)
                               Answer = static_cast<int64_t>(I);
                           return Status();
                         };
                       }};
}

} // namespace

Status registerAgents() {
  const std::pair<const char *, std::function<Expected<FunctionModel>(const Uri &)>> All[] = {
      {"heuristic", [](const Uri &From) { return stateless(From, heuristic); }},
      {"always", [](const Uri &From) { return stateless(From, constant(1)); }},
      {"never", [](const Uri &From) { return stateless(From, constant(0)); }},
      {"random", random}};
  for (const auto &[Name, Factory] : All)
    if (Status Made = registerFunction(Name, Factory); !Made)
      return Made;
  return Status();
}

} // namespace mlbridge::distribution
