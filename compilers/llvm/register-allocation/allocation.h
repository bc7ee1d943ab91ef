// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The live ranges of a function, and what can be done with one: colour, spill, split. Decides
// nothing.
#ifndef MLBRIDGE_REGISTER_ALLOCATION_ALLOCATION_H
#define MLBRIDGE_REGISTER_ALLOCATION_ALLOCATION_H

#include "llvm/ADT/BitVector.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/CodeGen/CalcSpillWeights.h"
#include "llvm/CodeGen/EdgeBundles.h"
#include "llvm/CodeGen/LiveDebugVariables.h"
#include "llvm/CodeGen/LiveIntervals.h"
#include "llvm/CodeGen/LiveRangeEdit.h"
#include "llvm/CodeGen/LiveRegMatrix.h"
#include "llvm/CodeGen/LiveStacks.h"
#include "llvm/CodeGen/MachineBlockFrequencyInfo.h"
#include "llvm/CodeGen/MachineDominators.h"
#include "llvm/CodeGen/MachineLoopInfo.h"
#include "llvm/CodeGen/MachineOptimizationRemarkEmitter.h"
#include "llvm/CodeGen/RegisterClassInfo.h"
#include "llvm/CodeGen/Spiller.h"
#include "llvm/CodeGen/VirtRegMap.h"

#include <memory>
#include <string>
#include <vector>

namespace mlbridge::register_allocation {

/// Analyses of one function. All are kept up to date.
struct Analyses {
  llvm::LiveIntervals &Intervals;
  llvm::VirtRegMap &Map;
  llvm::LiveRegMatrix &Matrix;
  llvm::LiveStacks &Stacks;
  llvm::LiveDebugVariables &Variables;
  llvm::MachineDominatorTree &Dominators;
  llvm::MachineLoopInfo &Loops;
  llvm::MachineBlockFrequencyInfo &Frequencies;
  llvm::EdgeBundles &Bundles;
  llvm::MachineOptimizationRemarkEmitter &Remarks;
};

enum : size_t {
  MaxRegisters = 32,   ///< of a register class
  MaxRanges = 2048,    ///< live ranges, those that spilling and splitting make included
  MaxEdges = 1U << 16, ///< pairs of live ranges that interfere
  MaxPoints = 200,     ///< where a live range may be split
};

/// What keeps a live range from having a register.
enum class Availability : uint8_t {
  Free,
  Neighbour, ///< another live range has it, or a part of it
  Fixed,     ///< an instruction does: a call that overwrites it, inline assembly
};

/// One register that a live range may be assigned.
struct Colour {
  llvm::MCRegister Register;
  Availability State = Availability::Fixed;
  bool IsHint = false;     ///< makes a copy unnecessary
  unsigned Wanted = 0;     ///< interfering live ranges that wait, for which it is a hint
  bool SavedFirst = false; ///< must be saved at the function's entry, and wasn't so far
  uint8_t Cost = 0;        ///< of each use, by the target: a longer encoding
  /// Another live range has it, but each that has weighs less, and can wait again. Only if no
  /// register is free.
  bool CanEvict = false;
  float Evicts = 0; ///< what spilling those would cost: executions
};

/// A way to split a live range, into a part and the rest.
struct Point {
  struct Copy {
    llvm::MachineBasicBlock *Block = nullptr;
    llvm::MachineBasicBlock::iterator Before;
    bool Into = true; ///< the part; or back into the rest
  };
  std::vector<llvm::MachineInstr *> Uses; ///< and definitions, of the part
  std::vector<Copy> Copies;
  float Weight = 0;    ///< executions of its uses and definitions, for each call of the function
  float Frequency = 0; ///< executions of the copies
};

class Allocation final : llvm::LiveRangeEdit::Delegate {
public:
  /// A virtual register. Keeps its number in ranges() when it is gone.
  struct Range {
    llvm::Register Register;
    bool Waits = true;      ///< has no colour yet
    bool Gone = false;      ///< spilled, or split
    unsigned Depth = 0;     ///< how often it, or what it is a part of, was split
    float Weight = 0;       ///< cost of spilling it, by size; 0 if it can't be
    float Executions = 0;   ///< of what uses or defines it, for each call of the function
    unsigned Evicted = 0;   ///< how often it had to give its register to another
    bool Spillable = true;  ///< false for the short ones that spilling leaves
    unsigned Uses = 0;      ///< instructions that define or use it
    unsigned Size = 0;      ///< in instructions
    unsigned Registers = 0; ///< of its class
  };

  Allocation(llvm::MachineFunction &MF, const Analyses &Analysis);
  ~Allocation() override;

  /// Why no function can be allocated for this target; empty if some can.
  static std::string refusal(const llvm::Triple &Target);
  /// Why this function is none that can be allocated here; empty if it is. Changes nothing.
  std::string refusal();
  /// Finds the live ranges.
  void begin();

  llvm::ArrayRef<Range> ranges() const { return Ranges; }
  /// The ranges that interfere with this one, in order. Valid until the next change.
  llvm::ArrayRef<uint32_t> neighbours(size_t Range) const { return Adjacent[Range]; }
  /// Grows when ranges() and neighbours() change, but for what waits.
  unsigned generation() const { return Generation; }

  /// True if to spill it saves copies and costs nothing: a constant or an address that is only
  /// copied to registers, for arguments. It takes the place of each copy, so not in code for size.
  bool isOnlyCopied(size_t Range) const;
  /// The registers of a range's class, in the order of allocation.
  std::vector<Colour> colours(size_t Range);
  /// The ways to split it.
  std::vector<Point> points(size_t Range);

  /// Live ranges that have the register wait again.
  void colour(size_t Range, llvm::MCRegister Register);
  void spill(size_t Range);
  void split(size_t Range, const Point &Where);
  /// Gives a range that can't be spilled the register whose live ranges are cheapest, which wait
  /// again. False if there is none.
  bool evictFor(size_t Range);

  /// Completes the allocation once all have a colour.
  void finish();
  /// Remarks are held back, until publish(): what they report may be undone.
  void hold() { Holds = true; }
  void publish();
  /// Takes all colours back, so that another allocator begins anew. Spills and splits stay.
  void giveUp();

private:
  bool LRE_CanEraseVirtReg(llvm::Register) override;
  void LRE_WillShrinkVirtReg(llvm::Register) override;

  llvm::LiveInterval &interval(size_t Range) const;
  /// The live ranges that have this register, or a part of it, where the interval is live.
  llvm::SmallVector<size_t, 8> holders(const llvm::LiveInterval &Interval,
                                       llvm::MCRegister Register);
  void evict(llvm::ArrayRef<size_t> Holders);
  /// Changes colours where that makes copies unnecessary.
  void saveCopies();
  const llvm::BitVector &unitsOf(const llvm::TargetRegisterClass *Class);
  /// The register that would make a copy of it unnecessary, or none.
  llvm::MCRegister hintOf(llvm::Register Register) const;
  float frequency(const llvm::MachineBasicBlock &Block) const;
  void add(llvm::Register Register, unsigned Depth);
  void describe(Range &Described);
  /// Finds the neighbours of all ranges.
  void connectAll();
  /// Finds the neighbours of one.
  void connect(size_t Range);
  bool canInterfere(size_t A, size_t B) const;
  /// Takes account of a spill or split, which made these registers.
  void refresh(llvm::ArrayRef<llvm::Register> NewRegisters, unsigned Depth);
  void remark(size_t Range, llvm::StringRef Kind, const llvm::Twine &Event);
  void eraseDead();

  llvm::MachineFunction &MF;
  llvm::MachineRegisterInfo &Registers;
  const llvm::TargetRegisterInfo &Target;
  const Analyses Analysis;
  llvm::RegisterClassInfo Classes;
  llvm::VirtRegAuxInfo Weights;
  std::unique_ptr<llvm::Spiller> Spiller;
  llvm::SmallPtrSet<llvm::MachineInstr *, 32> DeadRematerialized;
  std::vector<Range> Ranges;
  llvm::DenseMap<llvm::Register, size_t> Numbers; ///< in ranges()
  unsigned Generation = 0;
  /// Colours of ranges that became shorter.
  std::vector<std::pair<llvm::Register, llvm::MCRegister>> Shrunk;
  bool Holds = false;
  std::vector<llvm::MachineOptimizationRemark> Held;
  std::vector<std::vector<uint32_t>> Adjacent;  ///< for each range, sorted
  std::vector<const llvm::BitVector *> UnitsOf; ///< for each range: register units of its class
  llvm::DenseMap<const llvm::TargetRegisterClass *, std::unique_ptr<llvm::BitVector>> Units;
};

} // namespace mlbridge::register_allocation

#endif
