// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "environment.h"

#include "plugin/agent_models.h"

#include "llvm/Pass.h"

#include <algorithm>

namespace mlbridge::register_allocation {

Timed::Timed(llvm::StringRef Name, llvm::StringRef Description)
    : NamedRegionTimer(Name, Description, "register-allocation", "Register allocation by models",
                       llvm::TimePassesIsEnabled) {}

/// Columns of the inputs with several features.
enum : int64_t {
  NodeFeatures = 5,
  TaskFeatures = 9,
  ColourFeatures = 5,
  RegisterFeatures = 5,
  PointFeatures = 3
};

Span<const AgentSpec> AllocationEnvironment::specs() {
  using Spec = TensorSpec;
  static const int64_t Choices = MaxRegisters + 1;
  static const Shape Ranges{Dynamic}, MostRanges{MaxRanges};
  static const std::vector<AgentSpec> Agents = {
      {"node",
       {{Spec::of<bool>("action_mask", Ranges, MostRanges),
         Spec::of<float>("spill_weights", Ranges, MostRanges),
         Spec::of<float>("annotations", {Dynamic, NodeFeatures}, {MaxRanges, 0}),
         Spec::of<int32_t>("edges", {Dynamic, 2}, {MaxEdges, 0})},
        {Spec::of<int64_t>("node")}}},
      {"task",
       {{Spec::of<bool>("action_mask", {2}), Spec::of<float>("node_properties", {TaskFeatures})},
        {Spec::of<int64_t>("task")}}},
      {"colour",
       {{Spec::of<bool>("action_mask", {Choices}),
         Spec::of<float>("node_properties", {ColourFeatures}),
         Spec::of<float>("registers", {Choices, RegisterFeatures})},
        {Spec::of<int64_t>("colour")}}},
      {"split",
       {{Spec::of<bool>("action_mask", {Dynamic}, {MaxPoints}),
         Spec::of<float>("points", {Dynamic, PointFeatures}, {MaxPoints, 0})},
        {Spec::of<int64_t>("point")}}}};
  return Agents;
}

bool AllocationEnvironment::wantsEmbeddings(size_t Agent, const Model &Policy) {
  const Signature *Own = Policy.modelSignature();
  return Own && Own->findInput(plugin::embeddingName(Agent)) >= 0;
}

std::vector<TensorSpec> AllocationEnvironment::embeddingsFor(size_t Agent, size_t Dimension) {
  return {plugin::embeddingSpec(Agent, Dimension, MaxRanges)};
}

Status AllocationEnvironment::embed(Observation &To, Agent Reader) {
  const char *const Input = plugin::embeddingName(Reader);
  if (Specs[Reader].signature.findInput(Input) < 0)
    return Status();
  if (Reader != Node)
    return To.set(Input, Vectors->of(Function.ranges()[Selected].Register));
  const auto Ranges = Function.ranges();
  auto Rows = To.resize<float>(
      Input, {static_cast<int64_t>(Ranges.size()), static_cast<int64_t>(Vectors->dimension())});
  if (!Rows)
    return Rows.status();
  const std::vector<float> None(Vectors->dimension());
  float *Row = Rows->data();
  for (const Allocation::Range &Next : Ranges) {
    const auto Vector = Next.Gone ? llvm::ArrayRef<float>(None) : Vectors->of(Next.Register);
    Row = std::copy(Vector.begin(), Vector.end(), Row);
  }
  return Status();
}

Status AllocationEnvironment::stop(std::string Why) {
  Impossible = std::move(Why);
  return {Code::Unsupported, Impossible};
}

void AllocationEnvironment::select(size_t Range) {
  Selected = Range;
  Registers = Function.colours(Range);
  Points.clear();
  Free = Evictable = 0;
  for (const Colour &One : Registers) {
    Free += One.State == Availability::Free;
    Evictable += One.CanEvict;
  }
  // Finding them takes long, and with a free register nothing is gained.
  if (!Free)
    Points = Function.points(Range);
}

bool AllocationEnvironment::mayChange() {
  if (const auto Ask = std::exchange(WhyNot, nullptr))
    Impossible = Ask();
  return Impossible.empty();
}

bool AllocationEnvironment::isForced() {
  if (Function.isOnlyCopied(Selected)) {
    if (mayChange())
      Function.spill(Selected);
    return true;
  }
  if (!Points.empty())
    return false;
  const bool Spillable = Function.ranges()[Selected].Spillable;
  if (Free + Evictable + (Spillable ? 1 : 0) > 1)
    return false;
  if (Free + Evictable)
    for (const Colour &One : Registers)
      if (One.State == Availability::Free || One.CanEvict) {
        Function.colour(Selected, One.Register);
        return true;
      }
  if (Spillable) {
    if (mayChange())
      Function.spill(Selected);
  } else if (!Function.evictFor(Selected))
    Impossible = "no register is left for a live range that can't be spilled";
  return true;
}

Status AllocationEnvironment::proceed(Observation &Next) {
  for (;;) {
    if (!Impossible.empty())
      return stop(Impossible);
    if (Function.ranges().size() > MaxRanges)
      return stop("spilling and splitting made more than " + std::to_string(MaxRanges) +
                  " live ranges");
    size_t Waiting = 0, Last = 0;
    for (size_t I = 0; I < Function.ranges().size(); ++I)
      if (Function.ranges()[I].Waits) {
        ++Waiting;
        Last = I;
      }
    if (!Waiting) {
      setDone();
      return Status();
    }
    if (Waiting > 1)
      return showRanges(Next);
    select(Last);
    if (!isForced())
      return showTask(Next);
  }
}

Status AllocationEnvironment::showRanges(Observation &Next) {
  const Timed Features("features", "What agents are shown");
  Observation &To = Next.forAgent(Node);
  const auto Ranges = Function.ranges();
  const auto Count = static_cast<int64_t>(Ranges.size());
  Mask.assign(Ranges.size(), 0);
  for (size_t I = 0; I < Ranges.size(); ++I)
    Mask[I] = Ranges[I].Waits;
  if (Shown != Function.generation()) {
    Shown = Function.generation();
    size_t Edges = 0;
    for (size_t I = 0; I < Ranges.size(); ++I)
      Edges += Function.neighbours(I).size();
    Edges /= 2;
    if (Edges > MaxEdges)
      return stop("more than " + std::to_string(MaxEdges) + " pairs of live ranges interfere");
    (void)To.resize<bool>("action_mask", {Count});
    auto Weights = To.resize<float>("spill_weights", {Count});
    auto Notes = To.resize<float>("annotations", {Count, int64_t{NodeFeatures}});
    auto Pairs = To.resize<int32_t>("edges", {static_cast<int64_t>(Edges), int64_t{2}});
    if (!Weights || !Notes || !Pairs)
      return !Weights ? Weights.status() : !Notes ? Notes.status() : Pairs.status();
    int32_t *Pair = Pairs->data();
    for (size_t I = 0; I < Ranges.size(); ++I) {
      const Allocation::Range &Range = Ranges[I];
      (*Weights)[I] = Range.Weight;
      float *const Row = Notes->data() + I * NodeFeatures;
      Row[0] = Range.Spillable ? 0 : 1;
      Row[1] = static_cast<float>(Function.neighbours(I).size());
      Row[2] = static_cast<float>(Range.Registers);
      Row[3] = static_cast<float>(Range.Uses);
      Row[4] = static_cast<float>(Range.Size);
      for (const uint32_t Other : Function.neighbours(I))
        if (Other > I) {
          *Pair++ = static_cast<int32_t>(I);
          *Pair++ = static_cast<int32_t>(Other);
        }
    }
    if (Status Embedded = embed(To, Node); !Embedded)
      return Embedded;
  }
  const Span<bool> Allowed = To.input<bool>("action_mask");
  std::copy(Mask.begin(), Mask.end(), Allowed.begin());
  return Status();
}

Status AllocationEnvironment::showTask(Observation &Next) {
  if (Points.empty())
    return showColours(Next);
  Observation &To = Next.forAgent(Task);
  const Allocation::Range &Range = Function.ranges()[Selected];
  Mask = {1, 1};
  float Saved = 0, Evicts = -1;
  for (const Point &One : Points)
    Saved = std::max(Saved, One.Weight - One.Frequency);
  for (const Colour &One : Registers)
    if (One.CanEvict && (Evicts < 0 || One.Evicts < Evicts))
      Evicts = One.Evicts;
  (void)To.set("action_mask", {true, true});
  (void)embed(To, Task);
  return To.set("node_properties",
                {static_cast<float>(Function.neighbours(Selected).size()), static_cast<float>(Free),
                 Range.Weight, static_cast<float>(Range.Uses), static_cast<float>(Points.size()),
                 static_cast<float>(Range.Size), Range.Executions, Evicts, Saved});
}

Status AllocationEnvironment::showColours(Observation &Next) {
  const Timed Features("features", "What agents are shown");
  Observation &To = Next.forAgent(Colours);
  const Allocation::Range &Range = Function.ranges()[Selected];
  const size_t Held =
      static_cast<size_t>(std::count_if(Registers.begin(), Registers.end(), [](const Colour &One) {
        return One.State == Availability::Neighbour;
      }));
  size_t Waiting = 0;
  for (const uint32_t Other : Function.neighbours(Selected))
    Waiting += Function.ranges()[Other].Waits;
  (void)To.set("node_properties", {static_cast<float>(Free), static_cast<float>(Held),
                                   static_cast<float>(Waiting), Range.Weight, Range.Executions});
  (void)embed(To, Colours);
  const Span<float> Rows = To.input<float>("registers");
  std::fill(Rows.begin(), Rows.end(), 0.0f);
  Mask.assign(MaxRegisters + 1, 0);
  Mask[0] = Range.Spillable;
  for (size_t I = 0; I < Registers.size(); ++I) {
    const Colour &One = Registers[I];
    Mask[I + 1] = One.State == Availability::Free || One.CanEvict;
    float *const Row = Rows.data() + (I + 1) * RegisterFeatures;
    Row[0] = One.IsHint ? 1 : 0;
    Row[1] = One.SavedFirst ? 1 : 0;
    Row[2] = One.Cost;
    Row[3] = static_cast<float>(One.Wanted);
    Row[4] = One.CanEvict ? One.Evicts : 0;
  }
  const Span<bool> Allowed = To.input<bool>("action_mask");
  std::copy(Mask.begin(), Mask.end(), Allowed.begin());
  return Status();
}

Status AllocationEnvironment::showPoints(Observation &Next) {
  const Timed Features("features", "What agents are shown");
  Observation &To = Next.forAgent(Split);
  const auto Count = static_cast<int64_t>(Points.size());
  Mask.assign(Points.size(), 1);
  auto Allowed = To.resize<bool>("action_mask", {Count});
  auto Rows = To.resize<float>("points", {Count, int64_t{PointFeatures}});
  if (!Allowed || !Rows)
    return !Allowed ? Allowed.status() : Rows.status();
  (void)embed(To, Split);
  std::fill(Allowed->begin(), Allowed->end(), true);
  for (size_t I = 0; I < Points.size(); ++I) {
    float *const Row = Rows->data() + I * PointFeatures;
    Row[0] = Points[I].Weight;
    Row[1] = static_cast<float>(Points[I].Uses.size());
    Row[2] = Points[I].Frequency;
  }
  return Status();
}

Status AllocationEnvironment::reset(Observation &First) {
  Status Shows = proceed(First);
  if (Shows && !isDone())
    Asking.emplace("asking", "Waiting for agents");
  return Shows;
}

Status AllocationEnvironment::step(const Action &Taken, Observation &Next) {
  Asking.reset();
  Status Shows = act(Taken, Next);
  if (Shows && !isDone())
    Asking.emplace("asking", "Waiting for agents");
  return Shows;
}

Status AllocationEnvironment::act(const Action &Taken, Observation &Next) {
  const Expected<size_t> Choice =
      plugin::allowedChoice(Taken, specs()[Taken.agent()].signature.outputs[0].name, Mask);
  if (!Choice)
    return Choice.status();
  switch (Taken.agent()) {
  case Node:
    select(*Choice);
    return isForced() ? proceed(Next) : showTask(Next);
  case Task:
    if (*Choice == 1)
      return showPoints(Next);
    Points.clear();
    return isForced() ? proceed(Next) : showColours(Next);
  case Colours:
    if (*Choice != 0)
      Function.colour(Selected, Registers[*Choice - 1].Register);
    else if (mayChange())
      Function.spill(Selected);
    return proceed(Next);
  default:
    if (mayChange())
      Function.split(Selected, Points[*Choice]);
    return proceed(Next);
  }
}

} // namespace mlbridge::register_allocation
