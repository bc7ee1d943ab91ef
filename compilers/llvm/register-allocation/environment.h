// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A register allocator that four agents steer: `node` selects a live range, `task` whether to
// colour or to split it, `colour` a register or the stack, `split` a use; then again, until none
// waits.
#ifndef MLBRIDGE_REGISTER_ALLOCATION_ENVIRONMENT_H
#define MLBRIDGE_REGISTER_ALLOCATION_ENVIRONMENT_H

#include "allocation.h"

#include <mlbridge/environment.h>

#include "llvm/Support/Timer.h"

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

  static Span<const AgentSpec> specs();

  /// An episode begins with a function whose ranges are all waiting.
  explicit AllocationEnvironment(Allocation &Of) : Of(Of) {}

  Span<const AgentSpec> agents() const override { return specs(); }
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
  Status stop(std::string Why);
  /// Selects the range, and what there is to choose for it.
  void select(size_t Which);
  /// Does what needs no decision. Returns whether that was all.
  bool forced();

  Allocation &Of;
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
