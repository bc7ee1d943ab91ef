// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A register allocator that two agents steer: `range` says which live range is next, `register`
// which register it gets (0 is memory). The observations are graphs of any size. Where the agents
// are (in process, in a server, or the trainer that drives) isn't known here.
#ifndef TWO_AGENTS_ALLOCATOR_H
#define TWO_AGENTS_ALLOCATOR_H

#include <mlbridge/environment.h>

#include <algorithm>
#include <random>
#include <vector>

/// The compiler's part: live ranges that interfere, made up from a seed. Knows nothing of models.
struct LiveRanges {
  static constexpr int64_t Memory = 0, Choices = 5; // memory, and four registers
  static constexpr int64_t None = -1;

  explicit LiveRanges(uint64_t seed) {
    std::mt19937_64 random(seed); // the same numbers everywhere
    const size_t count = 6 + random() % 12;
    for (size_t i = 0; i < count; ++i) {
      weights.push_back(static_cast<float>(1 + random() % 64) / 16);
      for (size_t k = 0; k < i; ++k)
        if (random() % 100 < 60)
          edges.insert(edges.end(), {static_cast<int64_t>(k), static_cast<int64_t>(i)});
    }
    registers.assign(count, None);
  }

  bool isComplete() const { return std::count(registers.begin(), registers.end(), None) == 0; }
  std::vector<bool> unallocated() const {
    std::vector<bool> mask;
    for (const int64_t given : registers)
      mask.push_back(given == None);
    return mask;
  }
  /// Which registers no neighbour has; memory is always free.
  std::vector<bool> available(size_t range) const {
    std::vector<bool> mask(Choices, true);
    for (size_t i = 0; i < edges.size(); ++i)
      if (edges[i] == static_cast<int64_t>(range))
        if (const int64_t taken = registers[static_cast<size_t>(edges[i ^ 1])]; taken > Memory)
          mask[static_cast<size_t>(taken)] = false;
    return mask;
  }
  /// The cost of all ranges in memory.
  float cost() const {
    float sum = 0;
    for (size_t i = 0; i < registers.size(); ++i)
      sum += registers[i] == Memory ? weights[i] : 0;
    return sum;
  }
  /// Without agents: the ranges in their order, each in the first register that is free.
  void allocateTheRest() {
    for (size_t i = 0; i < registers.size(); ++i) {
      const std::vector<bool> mask = available(i);
      const auto first = std::find(mask.begin() + 1, mask.end(), true);
      if (registers[i] == None)
        registers[i] = first == mask.end() ? Memory : first - mask.begin();
    }
  }

  std::vector<float> weights;     ///< the cost of each range in memory
  std::vector<int64_t> edges;     ///< pairs of ranges that are live at once
  std::vector<int64_t> registers; ///< of each range
};

/// The pass, as an environment.
class Allocator final : public mlbridge::Environment {
public:
  enum Agent : size_t { Range, Register };

  mlbridge::Span<const mlbridge::AgentSpec> agents() const override { return Specs; }

  mlbridge::Status reset(mlbridge::Observation &first) override {
    ranges_ = LiveRanges(seed());
    return showRanges(first);
  }

  mlbridge::Status step(const mlbridge::Action &action, mlbridge::Observation &next) override {
    const bool selects = action.agent() == Range;
    const size_t choices = selects ? ranges_.weights.size() : size_t{LiveRanges::Choices};
    const mlbridge::Expected<int64_t> choice = action.choice("choice", choices);
    if (!choice)
      return choice.status();
    const auto chosen = static_cast<size_t>(*choice);
    if (!(selects ? ranges_.unallocated() : ranges_.available(range_))[chosen])
      return {mlbridge::Code::PolicyFailed, "choice " + std::to_string(chosen) + " is masked"};
    if (selects) {
      range_ = chosen;
      return showRegisters(next);
    }
    ranges_.registers[range_] = *choice;
    setReward(*choice == LiveRanges::Memory ? -double(ranges_.weights[range_]) : 0.0);
    if (!ranges_.isComplete())
      return showRanges(next);
    setReward(Range, -double(ranges_.cost()));
    setDone();
    return mlbridge::Status();
  }

  LiveRanges &ranges() { return ranges_; }

private:
  using Spec = mlbridge::TensorSpec;
  static constexpr int64_t Any = mlbridge::Dynamic;
  inline static const std::vector<mlbridge::AgentSpec> Specs = {
      {"range",
       {{Spec::of<std::string>("function"), Spec::of<float>("weights", {Any}),
         Spec::of<int64_t>("edges", {Any, 2}), Spec::of<bool>("action_mask", {Any})},
        {Spec::of<int64_t>("choice")}}},
      {"register",
       {{Spec::of<float>("weight"), Spec::of<bool>("action_mask", {LiveRanges::Choices})},
        {Spec::of<int64_t>("choice")}}}};

  mlbridge::Status showRanges(mlbridge::Observation &next) {
    next.forAgent(Range);
    const auto pairs = static_cast<int64_t>(ranges_.edges.size() / 2);
    const mlbridge::Expected<mlbridge::Span<int64_t>> edges =
        next.resize<int64_t>("edges", {pairs, 2});
    if (!edges)
      return edges.status();
    std::copy(ranges_.edges.begin(), ranges_.edges.end(), edges->begin());
    // A failure is also the Observation's, and ends the episode.
    (void)next.set("function", unit());
    (void)next.set("weights", ranges_.weights);
    return next.set("action_mask", ranges_.unallocated());
  }
  mlbridge::Status showRegisters(mlbridge::Observation &next) {
    (void)next.forAgent(Register).set("weight", ranges_.weights[range_]);
    return next.set("action_mask", ranges_.available(range_));
  }

  LiveRanges ranges_{0};
  size_t range_ = 0; ///< the one that was selected
};

#endif
