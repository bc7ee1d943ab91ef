// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "shared/agents.h"

#include "environment.h"

namespace mlbridge::register_allocation {

namespace {

/// The allowed choice with the highest score, the first of equals; 0 if none is allowed.
template <typename Score> int64_t best(Span<const bool> Mask, const Score &ScoreOf) {
  int64_t Best = -1;
  float Highest = 0;
  for (size_t I = 0; I < Mask.size(); ++I)
    if (const float Current = Mask[I] ? ScoreOf(I) : 0;
        Mask[I] && (Best < 0 || Current > Highest)) {
      Best = static_cast<int64_t>(I);
      Highest = Current;
    }
  return std::max<int64_t>(Best, 0);
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
    const auto Range = Call.in<float>("node_properties");
    const float Executions = Range[6], Evicts = Range[7], Saved = Range[8];
    const float Least = Evicts < 0 ? Executions : std::min(Evicts, Executions);
    Answer = Range[1] == 0 && Executions - Saved < Least ? 1 : 0; // no register is free
  } else if (Agent == "colour") {
    const auto Rows = Call.in<float>("registers"), Range = Call.in<float>("node_properties");
    const size_t Columns = Rows.size() / Mask.size();
    Answer = best(Mask, [&](size_t I) {
      const float *Row = Rows.data() + I * Columns;
      if (Range[0] == 0) // the cost of the live ranges that are spilled instead
        return I == 0 ? -Range[4] : -Row[4];
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
  const Status Heuristic = plugin::registerAgent("heuristic", heuristic);
  const Status Random = plugin::registerRandomAgent();
  return Heuristic ? Random : Heuristic;
}

} // namespace mlbridge::register_allocation
