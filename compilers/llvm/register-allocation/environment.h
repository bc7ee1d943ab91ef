// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A register allocator that four agents steer: `node` selects a live range, `task` whether to
// colour or to split it, `colour` a register or the stack, `split` a use; then again, until none
// waits.
#ifndef MLBRIDGE_REGISTER_ALLOCATION_ENVIRONMENT_H
#define MLBRIDGE_REGISTER_ALLOCATION_ENVIRONMENT_H

#include "allocation.h"
#include "range_embeddings.h"

#include <mlbridge/environment.h>

#include "llvm/Support/Timer.h"

#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace mlbridge::register_allocation {

/// Measures how long something lasts, for -time-passes.
struct Timed : llvm::NamedRegionTimer {
  Timed(llvm::StringRef Name, llvm::StringRef Description);
};

class AllocationEnvironment final : public Environment {
public:
  enum Agent : size_t { Node, Task, Colours, Split };

  /// The agents without embeddings.
  static Span<const AgentSpec> specs();
  /// True if an agent's model asks for embeddings; and the inputs that the agent then has.
  static bool wantsEmbeddings(size_t Agent, const Model &Policy);
  static std::vector<TensorSpec> embeddingsFor(size_t Agent, size_t Dimension);

  /// An episode begins with a function whose ranges are all waiting. `Specs` is specs(), with
  /// embeddings for some of the agents; these come from `Vectors`, which may be null if none has.
  /// `WhyNot`, if there is one, is called once, before what giveUp() doesn't undo; with a reason,
  /// the function can't be allocated here.
  AllocationEnvironment(Allocation &Function, Span<const AgentSpec> Specs, RangeEmbeddings *Vectors,
                        std::function<std::string()> WhyNot = nullptr)
      : Function(Function), Specs(Specs), Vectors(Vectors), WhyNot(std::move(WhyNot)) {}

  Span<const AgentSpec> agents() const override { return Specs; }
  Status reset(Observation &First) override;
  Status step(const Action &Taken, Observation &Next) override;

  /// Why the function can't be allocated here, if that ended the episode, and no agent; or empty.
  const std::string &impossible() const { return Impossible; }

private:
  Status act(const Action &Taken, Observation &Next);
  Status proceed(Observation &Next);
  Status showRanges(Observation &Next);
  Status showTask(Observation &Next);
  Status showColours(Observation &Next);
  Status showPoints(Observation &Next);
  /// Writes the embeddings that this agent has asked for.
  Status embed(Observation &To, Agent Reader);
  Status stop(std::string Why);
  /// Selects the range, and finds the choices for it.
  void select(size_t Range);
  /// Does what needs no decision. True if nothing is left to decide.
  bool isForced();
  /// True if changes may be made that giveUp() doesn't undo.
  bool mayChange();

  Allocation &Function;
  const Span<const AgentSpec> Specs;
  RangeEmbeddings *const Vectors;
  std::function<std::string()> WhyNot;
  size_t Selected = 0;
  std::vector<Colour> Registers; ///< of the selected range
  std::vector<Point> Points;
  size_t Free = 0, Evictable = 0;
  std::vector<uint8_t> Mask; ///< the allowed answers
  unsigned Shown = ~0U;      ///< generation of the graph that the agent has
  std::string Impossible;
  std::optional<Timed> Asking; ///< between two calls
};

/// Makes the agents that need no model known: function:heuristic and function:random?seed=N. They
/// decide for any of the four. Errors: InvalidArgument if the names are taken.
Status registerAgents();

} // namespace mlbridge::register_allocation

#endif
