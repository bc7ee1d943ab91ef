// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Compares what a function's allocation costs with the model's answers and with those of LLVM's
// heuristic.
#ifndef MLBRIDGE_EVICTION_COMPARISON_H
#define MLBRIDGE_EVICTION_COMPARISON_H

#include "trials/allocation_trials.h"

namespace mlbridge::eviction {

/// Chooses the answers that a function's allocation takes. At the first question on which the two
/// disagree, both are tried for the rest of the function; at later ones, the other answer with the
/// better of them thereafter, until `Effort` allocations other than LLVM's were tried.
class Comparison {
public:
  Comparison(const llvm::MachineFunction &MF, const llvm::VirtRegMap &Registers,
             const llvm::MachineBlockFrequencyInfo &Frequencies, unsigned Effort)
      : MF(MF), Registers(Registers), Frequencies(Frequencies), Left(Effort) {}

  /// True if the model's answer still matters.
  bool asks() const { return Left > 0 || TakesModel; }
  /// True if the model's answer is taken where it disagrees with LLVM. Blocks while allocations are
  /// tried. Returns also in the processes that try. Errors: those of tryAllocations; LLVM's answer
  /// is right then.
  Expected<bool> takesModel();

private:
  const llvm::MachineFunction &MF;
  const llvm::VirtRegMap &Registers;
  const llvm::MachineBlockFrequencyInfo &Frequencies;
  unsigned Left;
  bool TakesModel = true;                    ///< if nothing else is tried
  std::optional<trial::AllocationCost> Best; ///< the cost of the allocation that is taken so far
};

} // namespace mlbridge::eviction

#endif
