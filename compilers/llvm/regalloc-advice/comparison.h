// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Compares what a function's allocation costs with the model's answers and with those of LLVM's
// heuristic, each carried out to the end in a process of its own: an allocation cannot be undone.
#ifndef MLBRIDGE_REGALLOC_ADVICE_COMPARISON_H
#define MLBRIDGE_REGALLOC_ADVICE_COMPARISON_H

#include <mlbridge/status.h>

#include "llvm/ADT/ArrayRef.h"
#include "llvm/CodeGen/MachineFunction.h"

#include <optional>

namespace llvm {
class MachineBlockFrequencyInfo;
class VirtRegMap;
} // namespace llvm

namespace mlbridge::regalloc {

/// Of an allocation, for each call of the function, by LLVM's block frequencies.
struct AllocationCost {
  double Moves = 0;      ///< spills, reloads and copies, as LLVM's allocator reports them
  double Operations = 0; ///< instructions, and accesses of spill slots within others

  /// Fewer moves, and no more operations: a value that is computed again is not moved.
  bool isBelow(const AllocationCost &Other) const {
    return Moves < Other.Moves && Operations <= Other.Operations;
  }
};

/// Which answers a function's allocation takes. At the first question on which the two disagree,
/// both are tried for the rest of the function; at later ones, the other answer with the better
/// of them thereafter, until `Effort` allocations other than LLVM's were tried.
class Comparison {
public:
  Comparison(const llvm::MachineFunction &MF, const llvm::VirtRegMap &Registers,
             const llvm::MachineBlockFrequencyInfo &Frequencies, unsigned Effort)
      : MF(MF), Registers(Registers), Frequencies(Frequencies), Left(Effort) {}

  /// Whether the model's answer still matters.
  bool asks() const { return Left > 0 || TakesModel; }
  /// Where the model disagrees with LLVM: whether its answer is taken. Blocks while allocations are
  /// tried, each for a minute at most. Returns also in the processes that try, which end when the
  /// function is allocated. Errors: Unsupported, Unavailable (there can be no process), Internal (a
  /// trial crashed), DeadlineExceeded; LLVM's answer is right then.
  Expected<bool> takesModel();

private:
  struct Plan {
    bool Now, Later; ///< whether the model's answer is taken here, and after that
  };
  struct Outcome {
    AllocationCost Cost;
    bool Known = false;
  };
  Status compare(llvm::ArrayRef<Plan> Plans, llvm::MutableArrayRef<Outcome> Outcomes);
  void become(Plan Mine, Outcome &Its);
  AllocationCost cost() const;
  void report(const AllocationCost &Instead) const;

  const llvm::MachineFunction &MF;
  const llvm::VirtRegMap &Registers;
  const llvm::MachineBlockFrequencyInfo &Frequencies;
  unsigned Left;
  bool TakesModel = true;
  std::optional<Plan> Tried;          ///< in a process that tries
  std::optional<AllocationCost> Best; ///< of what is done if nothing else is tried
};

} // namespace mlbridge::regalloc

#endif
