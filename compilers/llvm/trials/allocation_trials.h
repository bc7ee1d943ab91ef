// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Tries ways to allocate a function's registers, each carried out to the end in
// a process of its own: an allocation cannot be undone.
#ifndef MLBRIDGE_LLVM_ALLOCATION_TRIALS_H
#define MLBRIDGE_LLVM_ALLOCATION_TRIALS_H

#include <mlbridge/status.h>

#include "llvm/ADT/ArrayRef.h"
#include "llvm/CodeGen/MachineFunction.h"

#include <optional>
#include <string>

namespace llvm {
class MachineBlockFrequencyInfo;
class VirtRegMap;
} // namespace llvm

namespace mlbridge::trial {

/// The cost of an allocation for each call of the function, by LLVM's block
/// frequencies.
struct AllocationCost {
  double Moves = 0;      ///< spills, reloads and copies, as LLVM's allocator reports them
  double Operations = 0; ///< instructions, and accesses of spill slots within others

  /// Fewer moves, and no more operations: a value that is computed again is not
  /// moved.
  bool isBelow(const AllocationCost &Other) const {
    return Moves < Other.Moves && Operations <= Other.Operations;
  }
};

/// The cost as the allocator's own report counts it, whose numbers LLVM keeps
/// to itself.
AllocationCost costOf(const llvm::MachineFunction &MF, const llvm::VirtRegMap &Registers,
                      const llvm::MachineBlockFrequencyInfo &Frequencies);

/// Forks a process for each of `Costs` that isn't known, an allocation run, and
/// returns its number there; the process goes on with the function, and ends
/// where the greedy allocator is done with it. Returns nothing in the caller,
/// once all have ended, a minute later at most, with what each allocation
/// costs, or nothing where LLVM refuses it. Errors, in the caller: Unsupported
/// (whyNot()), Unavailable (there can be no process, or one ended too
/// early), DeadlineExceeded, and those of endTrial.
///
/// `Registers` and `Frequencies` are those of the function, and stay.
Expected<std::optional<size_t>>
tryAllocations(const llvm::MachineFunction &MF, const llvm::VirtRegMap &Registers,
               const llvm::MachineBlockFrequencyInfo &Frequencies,
               llvm::MutableArrayRef<std::optional<AllocationCost>> Costs);

/// In an allocation run: ends it, and the caller's tryAllocations returns this
/// failure. Does nothing elsewhere.
void endTrial(const Status &Why);

/// In an allocation run: its allocation is done, though the greedy allocator
/// may not get to it. Measures it, and ends the process. Does nothing
/// elsewhere.
void endTrial(const llvm::MachineFunction &MF, const llvm::VirtRegMap &Registers,
              const llvm::MachineBlockFrequencyInfo &Frequencies);

/// A remark of the optimization: what the allocation that was taken costs, and
/// what it replaces.
void reportAllocation(const char *Optimization, const llvm::MachineFunction &MF,
                      const AllocationCost &Taken, const AllocationCost &Instead);

/// The number of allocations to try, which the option (-NAME) says.
/// InvalidArgument names it: no number, or a model that is not in the process,
/// as those that are forked can't share a connection.
Expected<unsigned> effortOf(llvm::StringRef Option, llvm::StringRef Number,
                            llvm::ArrayRef<llvm::StringRef> Models);

} // namespace mlbridge::trial

#endif
