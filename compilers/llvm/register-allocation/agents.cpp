// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "agents.h"

#include <mlbridge/function.h>
#include <mlbridge/uri.h>

#include <algorithm>
#include <random>

namespace mlbridge::allocation {

namespace {

/// The allowed choice with the highest score, the first of equals; 0 if none is allowed.
template <typename Score> int64_t best(Span<const bool> Mask, const Score &Of) {
  int64_t At = -1;
  float Highest = 0;
  for (size_t I = 0; I < Mask.size(); ++I)
    if (const float Its = Mask[I] ? Of(I) : 0; Mask[I] && (At < 0 || Its > Highest)) {
      At = static_cast<int64_t>(I);
      Highest = Its;
    }
  return std::max<int64_t>(At, 0);
}

/// The dearest live range first, a register rather than the stack, one that saves a copy before
/// one that costs something.
Status heuristic(FunctionCall &Call) {
  const auto Mask = Call.in<bool>("action_mask");
  int64_t &Answer = Call.output(0).as<int64_t>()[0];
  const std::string &Agent = Call.context().agent;
  if (Agent == "node") {
    const auto Weights = Call.in<float>("spill_weights"), Notes = Call.in<float>("annotations");
    const size_t Columns = Mask.empty() ? 0 : Notes.size() / Mask.size();
    Answer = best(Mask, [&](size_t I) { return Notes[I * Columns] > 0 ? 1e30f : Weights[I]; });
  } else if (Agent == "task") {
    const auto Its = Call.in<float>("node_properties");
    const float Executions = Its[6], Evicts = Its[7], Saved = Its[8];
    const float Least = Evicts < 0 ? Executions : std::min(Evicts, Executions);
    Answer = Its[1] == 0 && Executions - Saved < Least ? 1 : 0; // no register is free
  } else if (Agent == "colour") {
    const auto Rows = Call.in<float>("registers"), Its = Call.in<float>("node_properties");
    const size_t Columns = Rows.size() / Mask.size();
    Answer = best(Mask, [&](size_t I) {
      const float *Row = Rows.data() + I * Columns;
      if (Its[0] == 0) // what has to be spilled instead
        return I == 0 ? -Its[4] : -Row[4];
      return I == 0 ? -1e6f : 100 * Row[0] - 10 * Row[1] - Row[2] - 20 * Row[3];
    });
  } else {
    const auto Points = Call.in<float>("points");
    Answer = best(Mask, [&](size_t I) { return Points[3 * I] - Points[3 * I + 2]; });
  }
  return Status();
}

} // namespace

Status registerAgents() {
  Status Made = registerFunction("heuristic", [](const Uri &From) -> Expected<FunctionModel> {
    if (Status Known = From.allowOnly({}); !Known)
      return Known;
    return FunctionModel{{}, {}, [] { return heuristic; }};
  });
  Status Other = registerFunction("random", [](const Uri &From) -> Expected<FunctionModel> {
    if (Status Known = From.allowOnly({"seed"}); !Known)
      return Known;
    const Expected<uint64_t> Seed = From.number("seed", 0);
    if (!Seed)
      return Seed.status();
    return FunctionModel{{}, {}, [Seed = *Seed]() -> Function {
                           return [Generator = std::mt19937_64(Seed)](FunctionCall &Call) mutable {
                             const auto Mask = Call.in<bool>("action_mask");
                             const auto Allowed =
                                 static_cast<uint64_t>(std::count(Mask.begin(), Mask.end(), true));
                             uint64_t Skip = Allowed ? Generator() % Allowed : 0;
                             Call.output(0).as<int64_t>()[0] =
                                 best(Mask, [&](size_t) { return Skip-- == 0 ? 1.0f : 0.0f; });
                             return Status();
                           };
                         }};
  });
  return Made ? Other : Made;
}

} // namespace mlbridge::allocation
