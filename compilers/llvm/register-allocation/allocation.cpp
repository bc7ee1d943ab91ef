// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "allocation.h"

#include "llvm/CodeGen/MachineFunction.h"
#include "llvm/CodeGen/TargetInstrInfo.h"
#include "llvm/CodeGen/TargetSubtargetInfo.h"
#include "llvm/IR/DiagnosticInfo.h"
#include "llvm/Target/TargetMachine.h"

#include <algorithm>
#include <cmath>

using namespace llvm;

namespace mlbridge::allocation {

/// Parts of parts of parts are no further split: each split leaves a copy.
static constexpr unsigned MaxDepth = 6;

Allocation::Allocation(MachineFunction &MF, const Analyses &Its)
    : MF(MF), Registers(MF.getRegInfo()), Target(*MF.getSubtarget().getRegisterInfo()), Its(Its),
      Weights(MF, Its.Intervals, Its.Map, Its.Loops, Its.Frequencies) {}

Allocation::~Allocation() = default;

std::string Allocation::refusal() {
  const Triple &For = MF.getTarget().getTargetTriple();
  if (For.getArch() != Triple::x86_64 && !For.isAArch64())
    return "no target is supported but x86-64 and AArch64";
  if (any_of(MF, [](const MachineBasicBlock &Block) { return Block.isEHPad(); }))
    return "it has exception pads";
  Registers.freezeReservedRegs();
  Classes.runOnMachineFunction(MF);
  size_t Count = 0;
  for (unsigned I = 0; I < Registers.getNumVirtRegs(); ++I) {
    const Register Its = Register::index2VirtReg(I);
    if (Registers.reg_nodbg_empty(Its))
      continue;
    const TargetRegisterClass *const Class = Registers.getRegClass(Its);
    const size_t Order = Classes.getOrder(Class).size();
    if (Order == 0 || Order > MaxRegisters)
      return std::string(Target.getRegClassName(Class)) + " has " + std::to_string(Order) +
             " registers; expected 1 to " + std::to_string(MaxRegisters);
    if (++Count > MaxRanges)
      return "it has more than " + std::to_string(MaxRanges) + " live ranges";
  }
  return "";
}

void Allocation::begin() {
  Its.Matrix.invalidateVirtRegs();
  Weights.calculateSpillWeightsAndHints();
  Spiller.reset(createInlineSpiller({Its.Intervals, Its.Stacks, Its.Dominators, Its.Frequencies},
                                    MF, Its.Map, Weights, &Its.Matrix));
  for (unsigned I = 0, E = Registers.getNumVirtRegs(); I < E; ++I) {
    const Register Next = Register::index2VirtReg(I);
    if (!Registers.reg_nodbg_empty(Next) && !Its.Map.hasPhys(Next))
      add(Next, 0);
  }
  for (size_t I = 0; I < Ranges.size(); ++I)
    connect(I);
}

LiveInterval &Allocation::interval(size_t Range) const {
  return Its.Intervals.getInterval(Ranges[Range].Register);
}

void Allocation::add(Register Register, unsigned Depth) {
  Range New;
  New.Register = Register;
  New.Depth = Depth;
  describe(New);
  Ranges.push_back(New);
  if (Ranges.size() > Adjacent.size()) {
    const size_t More = 2 * Ranges.size();
    Adjacent.resize(More);
    for (BitVector &Row : Adjacent)
      Row.resize(More);
  }
  UnitsOf.push_back(&unitsOf(Registers.getRegClass(Register)));
}

void Allocation::describe(Range &Of) {
  const LiveInterval &Its = this->Its.Intervals.getInterval(Of.Register);
  Of.Spillable = Its.isSpillable();
  Of.Weight = Of.Spillable && std::isfinite(Its.weight()) ? Its.weight() : 0;
  Of.Size = Its.getSize() / SlotIndex::InstrDist;
  Of.Uses = 0;
  for (auto I = Registers.reg_instr_nodbg_begin(Of.Register), E = Registers.reg_instr_nodbg_end();
       I != E; ++I)
    ++Of.Uses;
  Of.Registers = Classes.getOrder(Registers.getRegClass(Of.Register)).size();
}

const BitVector &Allocation::unitsOf(const TargetRegisterClass *Class) {
  std::unique_ptr<BitVector> &All = Units[Class];
  if (!All) {
    All = std::make_unique<BitVector>(Target.getNumRegUnits());
    for (MCPhysReg Its : Classes.getOrder(Class))
      for (MCRegUnit Unit : Target.regunits(Its))
        All->set(static_cast<unsigned>(Unit));
  }
  return *All;
}

ArrayRef<std::pair<int32_t, int32_t>> Allocation::edges() {
  if (EdgesOf == Generation)
    return Edges;
  EdgesOf = Generation;
  Edges.clear();
  for (size_t I = 0; I < Ranges.size(); ++I)
    for (const unsigned J : Adjacent[I].set_bits())
      if (J > I)
        Edges.emplace_back(static_cast<int32_t>(I), static_cast<int32_t>(J));
  return Edges;
}

void Allocation::connect(size_t Range) {
  for (const unsigned Old : Adjacent[Range].set_bits())
    Adjacent[Old].reset(Range);
  Adjacent[Range].reset();
  // One of undefined uses only is empty.
  if (!Registers.reg_nodbg_empty(Ranges[Range].Register) && !interval(Range).empty()) {
    const LiveInterval &Of = interval(Range);
    const BitVector &Its = *UnitsOf[Range];
    for (size_t I = 0; I < Ranges.size(); ++I)
      if (I != Range && UnitsOf[I]->anyCommon(Its) &&
          !Registers.reg_nodbg_empty(Ranges[I].Register) && Of.overlaps(interval(I))) {
        Adjacent[Range].set(I);
        Adjacent[I].set(Range);
      }
  }
}

MCRegister Allocation::hintOf(Register Of) const {
  const auto *const Hints = Registers.getRegAllocationHints(Of);
  if (!Hints)
    return MCRegister();
  for (const Register Hint : Hints->second)
    if (const MCRegister Its = Hint.isVirtual() ? this->Its.Map.getPhys(Hint) : Hint.asMCReg())
      return Its;
  return MCRegister();
}

std::vector<Colour> Allocation::colours(size_t Range) {
  const LiveInterval &Of = interval(Range);
  Its.Matrix.invalidateVirtRegs();
  const ArrayRef<MCPhysReg> Order = Classes.getOrder(Registers.getRegClass(Of.reg()));
  SmallVector<MCPhysReg, 16> Hints;
  const bool OnlyHints =
      Target.getRegAllocationHints(Of.reg(), Order, Hints, MF, &Its.Map, &Its.Matrix);
  const ArrayRef<uint8_t> Costs = Target.getRegisterCosts(MF);
  SmallVector<MCRegister, 16> Wanted;
  for (const unsigned I : Adjacent[Range].set_bits())
    if (Ranges[I].Waits)
      if (const MCRegister Its = hintOf(Ranges[I].Register))
        Wanted.push_back(Its);
  std::vector<Colour> All;
  for (MCPhysReg Next : Order) {
    Colour One;
    One.Register = Next;
    One.IsHint = is_contained(Hints, Next);
    One.Cost = Costs[Next];
    One.Wanted = count_if(Wanted, [&](MCRegister Its) { return Target.regsOverlap(Its, Next); });
    One.SavedFirst = Classes.getLastCalleeSavedAlias(Next) && !Its.Matrix.isPhysRegUsed(Next);
    switch (Its.Matrix.checkInterference(Of, Next)) {
    case LiveRegMatrix::IK_Free:
      One.Is = Availability::Free;
      break;
    case LiveRegMatrix::IK_VirtReg:
      One.Is = Availability::Neighbour;
      break;
    default:
      break;
    }
    if (OnlyHints && !One.IsHint)
      One.Is = Availability::Fixed;
    All.push_back(One);
  }
  return All;
}

static bool canSplitBefore(const MachineInstr &Use) {
  return !Use.isCopyLike() && !Use.isInlineAsm() && !Use.isCompare() && !Use.isTerminator() &&
         !Use.isBundled();
}

std::vector<Point> Allocation::points(size_t Range) {
  std::vector<Point> All;
  const LiveInterval &Of = interval(Range);
  if (!Ranges[Range].Spillable || Ranges[Range].Depth >= MaxDepth || Of.hasSubRanges())
    return All;
  SmallPtrSet<MachineInstr *, 16> Uses;
  for (MachineOperand &Operand : Registers.reg_nodbg_operands(Of.reg())) {
    if (Operand.isDef() && Operand.getSubReg())
      return All;
    if (Operand.isUse() && !Operand.isUndef())
      Uses.insert(Operand.getParent());
  }
  std::vector<std::pair<SlotIndex, MachineInstr *>> Sorted;
  for (MachineInstr *Use : Uses)
    Sorted.emplace_back(Its.Intervals.getInstructionIndex(*Use), Use);
  sort(Sorted);
  if (Of.getNumValNums() != 1) {
    // For this use and those of the same value that follow in the block.
    for (size_t I = 0; I + 1 < Sorted.size() && All.size() < MaxPoints; ++I) {
      MachineInstr &Use = *Sorted[I].second;
      const VNInfo *const Value = Of.getVNInfoBefore(Sorted[I].first.getRegSlot());
      const auto Follows = [&](size_t J) {
        return J < Sorted.size() && Sorted[J].second->getParent() == Use.getParent() &&
               Of.getVNInfoBefore(Sorted[J].first.getRegSlot()) == Value &&
               !Sorted[J].second->modifiesRegister(Of.reg(), &Target);
      };
      SlotIndex Before = Its.Intervals.getMBBStartIdx(Use.getParent());
      if (Value)
        Before = std::max(Before, Value->def);
      if (I > 0)
        Before = std::max(Before, Sorted[I - 1].first);
      const int Distance = Before.distance(Sorted[I].first) / SlotIndex::InstrDist;
      if (!Value || !Follows(I) || !Follows(I + 1) || !canSplitBefore(Use) || Distance <= 1)
        continue;
      Point One;
      One.Block = Use.getParent();
      One.Before = Use.getIterator();
      One.IsLocal = true;
      One.Frequency = frequency(*One.Block);
      One.Distance = static_cast<float>(Distance);
      for (size_t J = I; Follows(J); ++J)
        One.Weight += One.Frequency;
      All.push_back(One);
    }
    return All;
  }
  // A copy of the only value is right wherever it dominates.
  const MachineInstr *Definition = Its.Intervals.getInstructionFromIndex(Of.getValNumInfo(0)->def);
  if (!Definition || Of.getValNumInfo(0)->isPHIDef())
    return {};
  const MachineLoop *Home = Its.Loops.getLoopFor(Definition->getParent());
  float Rest = 0;
  for (const auto &[At, Use] : Sorted)
    Rest += frequency(*Use->getParent());
  SmallPtrSet<const MachineLoop *, 4> Entered;
  SlotIndex Last = Of.getValNumInfo(0)->def;
  for (const auto &[At, Use] : Sorted) {
    const int Distance = Last.distance(At) / SlotIndex::InstrDist;
    const float After = Rest;
    Last = At;
    Rest -= frequency(*Use->getParent());
    Point One;
    One.Weight = After;
    One.Distance = static_cast<float>(Distance);
    // The outermost loop that has the use and not the definition: before it, not in it.
    const MachineLoop *Loop = Its.Loops.getLoopFor(Use->getParent());
    while (Loop && Loop != Home && Loop->getParentLoop() != Home)
      Loop = Loop->getParentLoop();
    if (Loop && Loop != Home) {
      MachineBasicBlock *Before = Loop->getLoopPreheader();
      if (!Before || !Entered.insert(Loop).second || Before == Definition->getParent())
        continue;
      One.Block = Before;
      One.Before = Before->getFirstTerminator();
    } else if (Loop != Home || !canSplitBefore(*Use) || Distance <= 1) {
      continue;
    } else {
      One.Block = Use->getParent();
      One.Before = Use->getIterator();
    }
    One.Frequency = frequency(*One.Block);
    All.push_back(One);
    if (All.size() == MaxPoints)
      break;
  }
  return All;
}

float Allocation::frequency(const MachineBasicBlock &Of) const {
  return static_cast<float>(Its.Frequencies.getBlockFreqRelativeToEntryBlock(&Of));
}

void Allocation::remark(size_t Range, StringRef Kind, const Twine &What) {
  Its.Remarks.emit([&] {
    const Register Of = Ranges[Range].Register;
    DebugLoc At;
    MachineBasicBlock *Block = &MF.front();
    for (MachineInstr &Next : Registers.reg_nodbg_instructions(Of)) {
      At = Next.getDebugLoc();
      Block = Next.getParent();
      break;
    }
    MachineOptimizationRemark Made("register-allocation", Kind, At, Block);
    std::string Text;
    raw_string_ostream(Text) << printReg(Of, &Target) << " of "
                             << Target.getRegClassName(Registers.getRegClass(Of)) << ": " << What;
    return Made << Text;
  });
}

void Allocation::colour(size_t Range, MCRegister With) {
  remark(Range, "Colour", Target.getName(With));
  Its.Matrix.assign(interval(Range), With);
  Ranges[Range].Waits = false;
}

void Allocation::spill(size_t Range) {
  remark(Range, "Spill", "spilled");
  SmallVector<Register, 8> Made;
  // The spiller erases it.
  const LiveInterval &Of = interval(Range);
  LiveRangeEdit Edit(&Of, Made, MF, Its.Intervals, &Its.Map, this, &DeadRematerialized);
  Spiller->spill(Edit);
  for (Register Gone : Spiller->getSpilledRegs())
    Its.Variables.splitRegister(Gone, Edit.regs(), Its.Intervals);
  for (Register Gone : Spiller->getReplacedRegs())
    Its.Variables.splitRegister(Gone, Edit.regs(), Its.Intervals);
  refresh(Edit.regs(), MaxDepth);
}

void Allocation::split(size_t Range, const Point &Before) {
  remark(Range, "Split", "split");
  SmallVector<Register, 2> Made;
  const LiveInterval &Of = interval(Range);
  const Register Old = Of.reg();
  LiveRangeEdit Edit(&Of, Made, MF, Its.Intervals, &Its.Map, this, &DeadRematerialized);
  const Register First = Edit.create(), Second = Edit.create();
  const DebugLoc At = Before.Block->findDebugLoc(Before.Before);
  MachineInstr *Copy = BuildMI(*Before.Block, Before.Before, At,
                               MF.getSubtarget().getInstrInfo()->get(TargetOpcode::COPY), Second)
                           .addReg(First);
  SmallPtrSet<const MachineInstr *, 16> Local;
  if (Before.IsLocal)
    for (auto I = std::next(Copy->getIterator()); I != Before.Block->end(); ++I) {
      if (I->modifiesRegister(Old, &Target))
        break;
      Local.insert(&*I);
    }
  const auto IsSecond = [&](const MachineInstr &Use) {
    return Before.IsLocal ? Local.contains(&Use) : Its.Dominators.dominates(Copy, &Use);
  };
  for (MachineOperand &Operand : make_early_inc_range(Registers.reg_operands(Old)))
    Operand.setReg(Operand.isUse() && IsSecond(*Operand.getParent()) ? Second : First);
  Its.Intervals.InsertMachineInstrInMaps(*Copy);
  for (Register New : {First, Second}) {
    Registers.clearKillFlags(New);
    Its.Intervals.createAndComputeVirtRegInterval(New);
  }
  Edit.calculateRegClassAndHint(MF, Weights);
  // The old interval stays, without a use: the spiller looks up the original's values.
  Its.Variables.splitRegister(Old, Edit.regs(), Its.Intervals);
  refresh(Edit.regs(), Ranges[Range].Depth + 1);
}

void Allocation::refresh(ArrayRef<Register> Made, unsigned Depth) {
  Its.Matrix.invalidateVirtRegs();
  for (const auto &[Short, With] : Shrunk) {
    if (Registers.reg_nodbg_empty(Short) || Its.Map.hasPhys(Short))
      continue;
    const LiveInterval &Of = Its.Intervals.getInterval(Short);
    if (Its.Matrix.checkInterference(Of, With) == LiveRegMatrix::IK_Free)
      Its.Matrix.assign(Of, With);
  }
  const size_t Old = Ranges.size();
  for (Register New : Made)
    if (Its.Intervals.hasInterval(New) && !Registers.reg_nodbg_empty(New))
      add(New, Depth);
  for (size_t I = 0; I < Ranges.size(); ++I) {
    Range &Next = Ranges[I];
    const bool Gone = Registers.reg_nodbg_empty(Next.Register);
    if (Gone && Next.Gone)
      continue;
    Next.Gone = Gone;
    Next.Waits = !Gone && !Its.Map.hasPhys(Next.Register);
    const bool IsShort =
        any_of(Shrunk, [&](const auto &One) { return One.first == Next.Register; });
    if (Gone || I >= Old || IsShort)
      connect(I);
    if (!Gone)
      describe(Next);
  }
  Shrunk.clear();
  ++Generation;
}

bool Allocation::evictFor(size_t Range) {
  const LiveInterval &For = interval(Range);
  MCRegister Best;
  float Least = 0;
  SmallVector<const LiveInterval *, 8> Evicted;
  for (const Colour &Next : colours(Range)) {
    if (Next.Is != Availability::Neighbour)
      continue;
    SmallVector<const LiveInterval *, 8> Holders;
    float Sum = 0;
    for (MCRegUnit Unit : Target.regunits(Next.Register))
      for (const LiveInterval *Holder : Its.Matrix.query(For, Unit).interferingVRegs())
        if (!is_contained(Holders, Holder)) {
          Holders.push_back(Holder);
          Sum += Holder->weight();
        }
    if (any_of(Holders, [](const LiveInterval *Holder) { return !Holder->isSpillable(); }))
      continue;
    if (!Best || Sum < Least) {
      Best = Next.Register;
      Least = Sum;
      Evicted = Holders;
    }
  }
  if (!Best)
    return false;
  for (const LiveInterval *Holder : Evicted)
    Its.Matrix.unassign(*Holder);
  for (size_t I = 0; I < Ranges.size(); ++I)
    if (any_of(Evicted,
               [&](const LiveInterval *Its) { return Its->reg() == Ranges[I].Register; })) {
      Ranges[I].Waits = true;
      remark(I, "Evict", "gives up its register for one that can't be spilled");
    }
  colour(Range, Best);
  return true;
}

bool Allocation::LRE_CanEraseVirtReg(Register Its) {
  LiveInterval &Of = this->Its.Intervals.getInterval(Its);
  if (this->Its.Map.hasPhys(Its)) {
    this->Its.Matrix.unassign(Of);
    return true;
  }
  // Who spills it still refers to it.
  Of.clear();
  return false;
}

void Allocation::LRE_WillShrinkVirtReg(Register Its) {
  if (!this->Its.Map.hasPhys(Its))
    return;
  Shrunk.emplace_back(Its, this->Its.Map.getPhys(Its));
  this->Its.Matrix.unassign(this->Its.Intervals.getInterval(Its));
}

void Allocation::finish() {
  Spiller->postOptimization();
  for (MachineInstr *Dead : DeadRematerialized) {
    Its.Intervals.RemoveMachineInstrFromMaps(*Dead);
    Dead->eraseFromParent();
  }
  DeadRematerialized.clear();
}

void Allocation::giveUp() {
  for (const Range &Next : Ranges)
    if (!Registers.reg_nodbg_empty(Next.Register) && Its.Map.hasPhys(Next.Register))
      Its.Matrix.unassign(Its.Intervals.getInterval(Next.Register));
  for (MachineInstr *Dead : DeadRematerialized) {
    Its.Intervals.RemoveMachineInstrFromMaps(*Dead);
    Dead->eraseFromParent();
  }
  DeadRematerialized.clear();
}

} // namespace mlbridge::allocation
