// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A register allocator that four agents steer, in the shape of RL4ReAl: one selects a live range,
// one whether to colour or to split it, one the colour, one the use to split at; then again, until
// all ranges are visited. The pass is the environment. Where the agents are (in process, out of
// process, or the trainer that drives) isn't known here.
#ifndef REGISTER_ALLOCATION_ALLOCATOR_H
#define REGISTER_ALLOCATION_ALLOCATOR_H

#include "allocation.h"

#include <mlbridge/environment.h>

#include <algorithm>
#include <vector>

class RegisterAllocator final : public mlbridge::Environment {
public:
  enum Agent : size_t { SelectNode, SelectTask, ColourNode, SplitNode };

  mlbridge::Span<const mlbridge::AgentSpec> agents() const override { return Agents; }

  mlbridge::Status reset(mlbridge::Observation &first) override {
    allocation_begin(&allocation_, seed());
    return showRanges(first);
  }

  mlbridge::Status step(const mlbridge::Action &action, mlbridge::Observation &next) override {
    const auto agent = static_cast<Agent>(action.agent());
    const size_t choices = agent == SelectNode   ? allocation_.ranges
                           : agent == SelectTask ? 2
                           : agent == ColourNode ? size_t{Colours}
                                                 : allocation_.range[range_].uses;
    const mlbridge::Expected<int64_t> chosen =
        action.choice(Agents[agent].signature.outputs[0].name, choices);
    if (!chosen)
      return chosen.status();
    note(&*chosen, sizeof *chosen);
    const auto choice = static_cast<uint32_t>(*chosen);
    if (!mask_[choice])
      return {mlbridge::Code::PolicyFailed, "choice " + std::to_string(choice) + " is masked"};
    switch (agent) {
    case SelectNode:
      range_ = choice;
      return showTask(next);
    case SelectTask:
      return choice == 0 ? showColours(next) : showUses(next);
    case ColourNode: {
      const float worth = allocation_colour(&allocation_, range_, static_cast<int>(choice));
      setReward(static_cast<double>(worth));
      if (!allocation_is_complete(&allocation_))
        return showRanges(next);
      setReward(SelectNode, allocation_.spilled == 0 ? 10 : -10);
      setDone();
      return mlbridge::Status();
    }
    case SplitNode:
      setReward(static_cast<double>(allocation_split(&allocation_, range_, choice)));
      return showRanges(next);
    }
    return mlbridge::Status();
  }

  const Allocation &allocation() const { return allocation_; }

  /// What the pass does without an agent: the remaining ranges in their order, the first register
  /// that is free.
  void fallBack() {
    for (uint32_t i = 0; i < allocation_.ranges; ++i) {
      bool allowed[Colours];
      (void)allocation_allowed(&allocation_, i, allowed);
      const bool *first = std::find(allowed + 1, allowed + Colours, true);
      if (!allocation_.range[i].visited)
        (void)allocation_colour(&allocation_, i,
                                first == allowed + Colours ? 0 : static_cast<int>(first - allowed));
    }
  }

private:
  using Status = mlbridge::Status;
  using Observation = mlbridge::Observation;
  using Spec = mlbridge::TensorSpec;
  static constexpr int64_t Any = mlbridge::Dynamic;

  inline static const std::vector<mlbridge::AgentSpec> Agents = {
      {"select_node",
       {{Spec::of<std::string>("function"), Spec::of<float>("spill_weights", {Any}),
         Spec::of<bool>("action_mask", {Any}), Spec::of<float>("state", {Any, StateSize}),
         Spec::of<float>("annotations", {Any, 3}), Spec::of<int64_t>("edges", {Any, 2})},
        {Spec::of<int64_t>("node")}}},
      {"select_task",
       {{Spec::of<float>("node_properties", {4}), Spec::of<bool>("action_mask", {2}),
         Spec::of<float>("state", {StateSize})},
        {Spec::of<int64_t>("task")}}},
      {"colour_node",
       {{Spec::of<float>("node_properties", {3}), Spec::of<bool>("action_mask", {Colours}),
         Spec::of<float>("state", {StateSize})},
        {Spec::of<int64_t>("colour")}}},
      {"split_node",
       {{Spec::of<float>("use_points", {Any, 2}, {MostUses, 0}),
         Spec::of<bool>("action_mask", {Any}, {MostUses}), Spec::of<float>("state", {StateSize})},
        {Spec::of<int64_t>("use_point")}}}};

  void note(const void *bytes, size_t size) { allocation_note(&allocation_, bytes, size); }

  /// Writes an input of the agent that acts next, and notes it.
  template <typename T>
  Status show(Observation &to, const char *name, const T *values, size_t count,
              std::initializer_list<int64_t> shape) {
    mlbridge::Expected<mlbridge::Span<T>> place = to.resize<T>(name, shape);
    if (!place)
      return place.status();
    std::copy(values, values + count, place->begin());
    note(values, count * sizeof(T));
    return Status();
  }
  Status showMask(Observation &to, size_t count) {
    return show(to, "action_mask", mask_, count, {static_cast<int64_t>(count)});
  }
  Status showState(Observation &to) {
    return show(to, "state", allocation_.state[range_], StateSize, {StateSize});
  }

  Status showRanges(Observation &next) {
    next.forAgent(SelectNode);
    const Allocation &a = allocation_;
    const int64_t n = a.ranges;
    float weights[MostRanges];
    for (uint32_t i = 0; i < a.ranges; ++i) {
      weights[i] = a.range[i].weight;
      mask_[i] = !a.range[i].visited;
    }
    const int64_t edges = allocation_edges(&a, edges_);
    // Each failure is also the Observation's, and ends the episode.
    (void)next.set("function", context());
    note(context().data(), context().size());
    (void)show(next, "spill_weights", weights, a.ranges, {n});
    (void)showMask(next, a.ranges);
    (void)show(next, "state", a.state[0], size_t{a.ranges} * StateSize, {n, StateSize});
    (void)show(next, "annotations", a.annotation[0], size_t{a.ranges} * 3, {n, 3});
    return show(next, "edges", edges_, static_cast<size_t>(edges) * 2, {edges, 2});
  }
  Status showTask(Observation &next) {
    next.forAgent(SelectTask);
    bool allowed[Colours];
    const Range &range = allocation_.range[range_];
    const float properties[] = {
        static_cast<float>(allocation_degree(&allocation_, range_)),
        static_cast<float>(allocation_allowed(&allocation_, range_, allowed)),
        std::min(range.weight, 1e4F), static_cast<float>(range.uses)};
    mask_[0] = true;
    mask_[1] = allocation_can_split(&allocation_, range_);
    (void)show(next, "node_properties", properties, 4, {4});
    (void)showMask(next, 2);
    return showState(next);
  }
  Status showColours(Observation &next) {
    next.forAgent(ColourNode);
    const auto available = static_cast<float>(allocation_allowed(&allocation_, range_, mask_));
    float unvisited = 0;
    for (uint32_t i = 0; i < allocation_.ranges; ++i)
      unvisited += allocation_.range[i].visited ? 0.0F : 1.0F;
    const float properties[] = {available, Registers - available, unvisited};
    (void)show(next, "node_properties", properties, 3, {3});
    (void)showMask(next, Colours);
    return showState(next);
  }
  Status showUses(Observation &next) {
    next.forAgent(SplitNode);
    const Range &range = allocation_.range[range_];
    float points[MostUses][2];
    for (uint32_t u = 0; u < range.uses; ++u) {
      points[u][0] = range.use_weight[u];
      points[u][1] = range.use_distance[u];
      mask_[u] = u + 1 < range.uses;
    }
    const int64_t uses = range.uses;
    (void)show(next, "use_points", points[0], size_t{range.uses} * 2, {uses, 2});
    (void)showMask(next, range.uses);
    return showState(next);
  }

  Allocation allocation_ = {};
  uint32_t range_ = 0; ///< that was selected
  bool mask_[MostRanges] = {};
  int64_t edges_[size_t{2} * MostEdges] = {};
};

#endif
