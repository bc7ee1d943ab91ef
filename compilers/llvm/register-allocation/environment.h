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

namespace mlbridge::allocation {

/// How long something lasts, for -time-passes.
struct Timed : llvm::NamedRegionTimer {
  Timed(llvm::StringRef Name, llvm::StringRef Description);
};

class AllocationEnvironment final : public Environment {
public:
  enum Agent : size_t { Node, Task, Colours, Split };

  /// Without embeddings.
  static Span<const AgentSpec> specs();
  /// Whether an agent's model asks for embeddings, and the input that the agent then has.
  static bool wantsEmbedding(size_t Agent, const Model &Policy);
  static TensorSpec embeddingFor(size_t Agent, size_t Dimension);

  /// An episode begins with a function whose ranges are all waiting. `Specs` is specs(), with
  /// embeddings for some of the agents; these come from `Vectors`, which may be null if none has.
  /// `WhyNot`, if there is one, is called once, before what giveUp() doesn't undo; with a reason,
  /// the function can't be allocated here.
  AllocationEnvironment(Allocation &Of, Span<const AgentSpec> Specs, RangeEmbeddings *Vectors,
                        std::function<std::string()> WhyNot = nullptr)
      : Of(Of), Specs(Specs), Vectors(Vectors), WhyNot(std::move(WhyNot)) {}

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
  Status embed(Observation &To, Agent For);
  Status stop(std::string Why);
  /// Selects the range, and what there is to choose for it.
  void select(size_t Which);
  /// Does what needs no decision. Returns whether that was all.
  bool forced();
  /// Before what giveUp() doesn't undo.
  bool mayChange();

  Allocation &Of;
  const Span<const AgentSpec> Specs;
  RangeEmbeddings *const Vectors;
  std::function<std::string()> WhyNot;
  size_t Selected = 0;
  std::vector<Colour> Registers; ///< of the selected range
  std::vector<Point> Points;
  size_t Free = 0, Evictable = 0;
  std::vector<uint8_t> Mask; ///< what may be answered
  unsigned Shown = ~0U;      ///< generation of the graph that the agent has
  std::string Impossible;
  std::optional<Timed> Asking; ///< between two calls
};

} // namespace mlbridge::allocation

#endif
