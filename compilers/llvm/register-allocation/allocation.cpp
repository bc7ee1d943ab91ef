// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "allocation.h"

#include "llvm/CodeGen/MachineFunction.h"
#include "llvm/CodeGen/TargetInstrInfo.h"
#include "llvm/CodeGen/TargetSubtargetInfo.h"
#include "llvm/IR/DiagnosticInfo.h"
#include "llvm/Target/TargetMachine.h"

#include <algorithm>
#include <cmath>
#include <tuple>

using namespace llvm;

namespace mlbridge::register_allocation {

/// The depth of what spilling leaves: it isn't split.
static constexpr unsigned NoSplit = ~0U;
/// No live range must give up its register more often, but for one that can't be spilled.
static constexpr unsigned MaxEvicted = 8;

Allocation::Allocation(MachineFunction &MF, const Analyses &Analysis)
    : MF(MF), Registers(MF.getRegInfo()), Target(*MF.getSubtarget().getRegisterInfo()),
      Analysis(Analysis),
      Weights(MF, Analysis.Intervals, Analysis.Map, Analysis.Loops, Analysis.Frequencies) {}

Allocation::~Allocation() = default;

std::string Allocation::refusal(const Triple &Target) {
  if (Target.getArch() != Triple::x86_64 && !Target.isAArch64())
    return "no target is supported but x86-64 and AArch64";
  return "";
}

std::string Allocation::refusal() {
  if (std::string Why = refusal(MF.getTarget().getTargetTriple()); !Why.empty())
    return Why;
  if (any_of(MF, [](const MachineBasicBlock &Block) { return Block.isEHPad(); }))
    return "it has exception pads";
  Registers.freezeReservedRegs();
  Classes.runOnMachineFunction(MF);
  size_t Count = 0;
  for (unsigned I = 0; I < Registers.getNumVirtRegs(); ++I) {
    const Register Virtual = Register::index2VirtReg(I);
    if (Registers.reg_nodbg_empty(Virtual))
      continue;
    const TargetRegisterClass *const Class = Registers.getRegClass(Virtual);
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
  Analysis.Matrix.invalidateVirtRegs();
  Weights.calculateSpillWeightsAndHints();
  Spiller.reset(createInlineSpiller(
      {Analysis.Intervals, Analysis.Stacks, Analysis.Dominators, Analysis.Frequencies}, MF,
      Analysis.Map, Weights, &Analysis.Matrix));
  for (unsigned I = 0, E = Registers.getNumVirtRegs(); I < E; ++I) {
    const Register Next = Register::index2VirtReg(I);
    if (!Registers.reg_nodbg_empty(Next) && !Analysis.Map.hasPhys(Next))
      add(Next, 0);
  }
  connectAll();
}

bool Allocation::isOnlyCopied(size_t Range) const {
  const Register Virtual = Ranges[Range].Register;
  if (!Ranges[Range].Spillable || Ranges[Range].Depth == NoSplit || MF.getFunction().hasOptSize() ||
      !Registers.hasOneDef(Virtual) || Registers.use_nodbg_empty(Virtual))
    return false;
  const MachineInstr &Definition = *Registers.def_instr_begin(Virtual);
  return Definition.getNumDefs() == 1 && !Definition.getOperand(0).getSubReg() &&
         !Definition.mayLoad() &&
         MF.getSubtarget().getInstrInfo()->isTriviallyReMaterializable(Definition) &&
         all_of(Registers.use_nodbg_instructions(Virtual), [](const MachineInstr &Use) {
           return Use.isFullCopy() && Use.getOperand(0).getReg().isPhysical();
         });
}

LiveInterval &Allocation::interval(size_t Range) const {
  return Analysis.Intervals.getInterval(Ranges[Range].Register);
}

void Allocation::add(Register Register, unsigned Depth) {
  Range New;
  New.Register = Register;
  New.Depth = Depth;
  describe(New);
  Numbers[Register] = Ranges.size();
  Ranges.push_back(New);
  Adjacent.emplace_back();
  UnitsOf.push_back(&unitsOf(Registers.getRegClass(Register)));
}

void Allocation::describe(Range &Described) {
  const LiveInterval &Interval = Analysis.Intervals.getInterval(Described.Register);
  Described.Spillable = Interval.isSpillable();
  Described.Weight =
      Described.Spillable && std::isfinite(Interval.weight()) ? Interval.weight() : 0;
  Described.Size = Interval.getSize() / SlotIndex::InstrDist;
  Described.Uses = 0;
  Described.Executions = 0;
  for (const MachineInstr &Use : Registers.reg_nodbg_instructions(Described.Register)) {
    ++Described.Uses;
    Described.Executions += frequency(*Use.getParent());
  }
  Described.Registers = Classes.getOrder(Registers.getRegClass(Described.Register)).size();
}

const BitVector &Allocation::unitsOf(const TargetRegisterClass *Class) {
  std::unique_ptr<BitVector> &All = Units[Class];
  if (!All) {
    All = std::make_unique<BitVector>(Target.getNumRegUnits());
    for (MCPhysReg Register : Classes.getOrder(Class))
      for (MCRegUnit Unit : Target.regunits(Register))
        All->set(static_cast<unsigned>(Unit));
  }
  return *All;
}

bool Allocation::canInterfere(size_t A, size_t B) const {
  return UnitsOf[A] == UnitsOf[B] || UnitsOf[A]->anyCommon(*UnitsOf[B]);
}

void Allocation::connectAll() {
  struct Living {
    SlotIndex From, To;
    uint32_t Range;
  };
  std::vector<Living> All;
  for (size_t I = 0; I < Ranges.size(); ++I)
    for (const LiveRange::Segment &Next : interval(I))
      All.push_back({Next.start, Next.end, static_cast<uint32_t>(I)});
  sort(All, [](const Living &A, const Living &B) {
    return std::tie(A.From, A.Range) < std::tie(B.From, B.Range);
  });
  SmallVector<const Living *, 64> Now;
  for (const Living &Next : All) {
    erase_if(Now, [&](const Living *Before) { return Before->To <= Next.From; });
    for (const Living *Before : Now)
      if (Before->Range != Next.Range && canInterfere(Before->Range, Next.Range)) {
        Adjacent[Before->Range].push_back(Next.Range);
        Adjacent[Next.Range].push_back(Before->Range);
      }
    Now.push_back(&Next);
  }
  for (std::vector<uint32_t> &Neighbours : Adjacent) {
    sort(Neighbours);
    Neighbours.erase(std::unique(Neighbours.begin(), Neighbours.end()), Neighbours.end());
  }
}

void Allocation::connect(size_t Range) {
  const auto Number = static_cast<uint32_t>(Range);
  for (const uint32_t Old : Adjacent[Range])
    Adjacent[Old].erase(lower_bound(Adjacent[Old], Number));
  Adjacent[Range].clear();
  // A range of undefined uses only is empty.
  if (Registers.reg_nodbg_empty(Ranges[Range].Register) || interval(Range).empty())
    return;
  const LiveInterval &Interval = interval(Range);
  for (uint32_t I = 0; I < Ranges.size(); ++I)
    if (I != Range && !Ranges[I].Gone && canInterfere(I, Range) &&
        !Registers.reg_nodbg_empty(Ranges[I].Register) && Interval.overlaps(interval(I))) {
      Adjacent[Range].push_back(I);
      Adjacent[I].insert(lower_bound(Adjacent[I], Number), Number);
    }
}

MCRegister Allocation::hintOf(Register Register) const {
  const auto *const Hints = Registers.getRegAllocationHints(Register);
  if (!Hints)
    return MCRegister();
  for (const auto Hint : Hints->second)
    if (const MCRegister Fixed = Hint.isVirtual() ? Analysis.Map.getPhys(Hint) : Hint.asMCReg())
      return Fixed;
  return MCRegister();
}

std::vector<Colour> Allocation::colours(size_t Range) {
  const LiveInterval &Interval = interval(Range);
  Analysis.Matrix.invalidateVirtRegs();
  const ArrayRef<MCPhysReg> Order = Classes.getOrder(Registers.getRegClass(Interval.reg()));
  SmallVector<MCPhysReg, 16> Hints;
  const bool OnlyHints = Target.getRegAllocationHints(Interval.reg(), Order, Hints, MF,
                                                      &Analysis.Map, &Analysis.Matrix);
  const ArrayRef<uint8_t> Costs = Target.getRegisterCosts(MF);
  SmallVector<MCRegister, 16> Wanted;
  for (const uint32_t I : Adjacent[Range])
    if (Ranges[I].Waits)
      if (const MCRegister Hint = hintOf(Ranges[I].Register))
        Wanted.push_back(Hint);
  std::vector<Colour> All;
  for (MCPhysReg Next : Order) {
    Colour One;
    One.Register = Next;
    One.IsHint = is_contained(Hints, Next);
    One.Cost = Costs[Next];
    One.Wanted = count_if(Wanted, [&](MCRegister Hint) { return Target.regsOverlap(Hint, Next); });
    One.SavedFirst = Classes.getLastCalleeSavedAlias(Next) && !Analysis.Matrix.isPhysRegUsed(Next);
    switch (Analysis.Matrix.checkInterference(Interval, Next)) {
    case LiveRegMatrix::IK_Free:
      One.State = Availability::Free;
      break;
    case LiveRegMatrix::IK_VirtReg:
      One.State = Availability::Neighbour;
      break;
    default:
      break;
    }
    if (OnlyHints && !One.IsHint)
      One.State = Availability::Fixed;
    All.push_back(One);
  }
  if (any_of(All, [](const Colour &One) { return One.State == Availability::Free; }))
    return All;
  for (Colour &One : All) {
    if (One.State != Availability::Neighbour)
      continue;
    const auto Holders = holders(Interval, One.Register);
    One.CanEvict = all_of(Holders, [&](size_t I) {
      return Ranges[I].Spillable && Ranges[I].Evicted < MaxEvicted &&
             interval(I).weight() < Interval.weight();
    });
    for (const size_t I : Holders)
      One.Evicts += Ranges[I].Executions;
  }
  return All;
}

SmallVector<size_t, 8> Allocation::holders(const LiveInterval &Interval, MCRegister Register) {
  SmallVector<size_t, 8> Holders;
  for (const MCRegUnit Unit : Target.regunits(Register))
    for (const LiveInterval *Holder : Analysis.Matrix.query(Interval, Unit).interferingVRegs())
      if (const size_t I = Numbers.lookup(Holder->reg()); !is_contained(Holders, I))
        Holders.push_back(I);
  return Holders;
}

void Allocation::evict(ArrayRef<size_t> Holders) {
  for (const size_t I : Holders) {
    Analysis.Matrix.unassign(interval(I));
    Ranges[I].Waits = true;
    ++Ranges[I].Evicted;
    remark(I, "Evict", "gives up its register");
  }
}

float Allocation::frequency(const MachineBasicBlock &Block) const {
  return static_cast<float>(Analysis.Frequencies.getBlockFreqRelativeToEntryBlock(&Block));
}

void Allocation::remark(size_t Range, StringRef Kind, const Twine &Event) {
  const auto Make = [&] {
    const Register Virtual = Ranges[Range].Register;
    const auto Uses = Registers.reg_nodbg_instructions(Virtual);
    const bool IsUsed = Uses.begin() != Uses.end();
    MachineOptimizationRemark Remark("register-allocation", Kind,
                                     IsUsed ? Uses.begin()->getDebugLoc() : DebugLoc(),
                                     IsUsed ? Uses.begin()->getParent() : &MF.front());
    std::string Text;
    raw_string_ostream(Text) << printReg(Virtual, &Target) << " of "
                             << Target.getRegClassName(Registers.getRegClass(Virtual)) << ": "
                             << Event;
    return Remark << Text;
  };
  if (!Holds)
    Analysis.Remarks.emit(Make);
  else if (Analysis.Remarks.allowExtraAnalysis("register-allocation"))
    Held.push_back(Make());
}

void Allocation::publish() {
  Holds = false;
  for (MachineOptimizationRemark &Next : Held)
    Analysis.Remarks.emit(Next);
  Held.clear();
}

void Allocation::colour(size_t Range, MCRegister Register) {
  evict(holders(interval(Range), Register));
  remark(Range, "Colour", Target.getName(Register));
  Analysis.Matrix.assign(interval(Range), Register);
  Ranges[Range].Waits = false;
}

void Allocation::spill(size_t Range) {
  if (isOnlyCopied(Range))
    remark(Range, "Rematerialize", "computed again for each copy");
  else
    remark(Range, "Spill", "spilled");
  SmallVector<Register, 8> NewRegisters;
  // The spiller erases the interval.
  LiveRangeEdit Edit(&interval(Range), NewRegisters, MF, Analysis.Intervals, &Analysis.Map, this,
                     &DeadRematerialized);
  Spiller->spill(Edit);
  for (const ArrayRef<Register> Replaced : {Spiller->getSpilledRegs(), Spiller->getReplacedRegs()})
    for (const Register Gone : Replaced)
      Analysis.Variables.splitRegister(Gone, Edit.regs(), Analysis.Intervals);
  refresh(Edit.regs(), NoSplit);
}

void Allocation::split(size_t Range, const Point &Where) {
  remark(Range, "Split", "split");
  SmallVector<Register, 4> NewRegisters;
  const Register Old = Ranges[Range].Register;
  LiveRangeEdit Edit(&interval(Range), NewRegisters, MF, Analysis.Intervals, &Analysis.Map, this,
                     &DeadRematerialized);
  const Register Rest = Edit.create(), Part = Edit.create();
  const SmallPtrSet<const MachineInstr *, 16> IsPart(Where.Uses.begin(), Where.Uses.end());
  for (MachineOperand &Operand : make_early_inc_range(Registers.reg_operands(Old)))
    Operand.setReg(IsPart.contains(Operand.getParent()) ? Part : Rest);
  SmallVector<MachineInstr *, 4> Copies, Dead;
  for (const Point::Copy &Copy : Where.Copies) {
    MachineInstr *const NewCopy =
        BuildMI(*Copy.Block, Copy.Before, Copy.Block->findDebugLoc(Copy.Before),
                MF.getSubtarget().getInstrInfo()->get(TargetOpcode::COPY), Copy.Into ? Part : Rest)
            .addReg(Copy.Into ? Rest : Part);
    Analysis.Intervals.InsertMachineInstrInMaps(*NewCopy);
    Copies.push_back(NewCopy);
  }
  for (const Register New : {Rest, Part}) {
    Registers.clearKillFlags(New);
    LiveInterval &Whole = Analysis.Intervals.createAndComputeVirtRegInterval(New);
    SmallVector<LiveInterval *, 4> Apart;
    Analysis.Intervals.splitSeparateComponents(Whole, Apart);
    for (const LiveInterval *Other : Apart)
      Analysis.Map.setIsSplitFromReg(Other->reg(), Analysis.Map.getOriginal(Old));
  }
  // Spilled, a copy that nothing uses would be a load that doesn't say so.
  copy_if(Copies, std::back_inserter(Dead),
          [](MachineInstr *Copy) { return Copy->allDefsAreDead(); });
  Edit.eliminateDeadDefs(Dead);
  Edit.calculateRegClassAndHint(MF, Weights);
  // The old interval stays, without a use: the spiller looks up the original's values.
  Analysis.Variables.splitRegister(Old, Edit.regs(), Analysis.Intervals);
  refresh(Edit.regs(), Ranges[Range].Depth + 1);
}

void Allocation::refresh(ArrayRef<Register> NewRegisters, unsigned Depth) {
  Analysis.Matrix.invalidateVirtRegs();
  for (const auto &[Short, Colour] : Shrunk) {
    if (Registers.reg_nodbg_empty(Short) || Analysis.Map.hasPhys(Short))
      continue;
    const LiveInterval &Interval = Analysis.Intervals.getInterval(Short);
    if (Analysis.Matrix.checkInterference(Interval, Colour) == LiveRegMatrix::IK_Free)
      Analysis.Matrix.assign(Interval, Colour);
  }
  const size_t Old = Ranges.size();
  for (const Register New : NewRegisters)
    if (Analysis.Intervals.hasInterval(New) && !Registers.reg_nodbg_empty(New))
      add(New, Depth);
  for (size_t I = 0; I < Ranges.size(); ++I) {
    Range &Next = Ranges[I];
    const bool Gone = Registers.reg_nodbg_empty(Next.Register);
    if (Gone && Next.Gone)
      continue;
    Next.Gone = Gone;
    Next.Waits = !Gone && !Analysis.Map.hasPhys(Next.Register);
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
  MCRegister Best;
  float Least = 0;
  for (const Colour &Next : colours(Range)) {
    if (Next.State != Availability::Neighbour)
      continue;
    float Sum = 0;
    bool Spillable = true;
    for (const size_t I : holders(interval(Range), Next.Register)) {
      Spillable &= Ranges[I].Spillable;
      Sum += Ranges[I].Weight;
    }
    if (Spillable && (!Best || Sum < Least)) {
      Best = Next.Register;
      Least = Sum;
    }
  }
  if (!Best)
    return false;
  colour(Range, Best);
  return true;
}

bool Allocation::LRE_CanEraseVirtReg(Register Virtual) {
  LiveInterval &Interval = Analysis.Intervals.getInterval(Virtual);
  if (Analysis.Map.hasPhys(Virtual)) {
    Analysis.Matrix.unassign(Interval);
    return true;
  }
  // The spiller still refers to it.
  Interval.clear();
  return false;
}

void Allocation::LRE_WillShrinkVirtReg(Register Virtual) {
  if (!Analysis.Map.hasPhys(Virtual))
    return;
  Shrunk.emplace_back(Virtual, Analysis.Map.getPhys(Virtual));
  Analysis.Matrix.unassign(Analysis.Intervals.getInterval(Virtual));
}

void Allocation::saveCopies() {
  bool Changed = true;
  for (unsigned Round = 0; Changed && Round < 3; ++Round) {
    Changed = false;
    for (const Range &Next : Ranges) {
      if (Next.Gone || !Analysis.Map.hasPhys(Next.Register))
        continue;
      SmallVector<std::pair<MCRegister, float>, 4> Saved;
      for (const MachineInstr &Copy : Registers.reg_nodbg_instructions(Next.Register)) {
        if (!Copy.isFullCopy())
          continue;
        const bool IsFrom = Copy.getOperand(1).getReg() == Next.Register;
        const Register Other = Copy.getOperand(IsFrom ? 0 : 1).getReg();
        const MCRegister Colour = Other.isVirtual() ? Analysis.Map.getPhys(Other) : Other.asMCReg();
        auto *const Entry = find_if(Saved, [&](const auto &One) { return One.first == Colour; });
        if (Entry != Saved.end())
          Entry->second += frequency(*Copy.getParent());
        else if (Colour)
          Saved.emplace_back(Colour, frequency(*Copy.getParent()));
      }
      const MCRegister Now = Analysis.Map.getPhys(Next.Register);
      float Most = 0;
      for (const auto &One : Saved)
        if (One.first == Now)
          Most = One.second;
      if (none_of(Saved, [&](const auto &One) { return One.second > Most; }))
        continue;
      const LiveInterval &Interval = Analysis.Intervals.getInterval(Next.Register);
      const ArrayRef<MCPhysReg> Order = Classes.getOrder(Registers.getRegClass(Next.Register));
      Analysis.Matrix.unassign(Interval);
      MCRegister Best = Now;
      for (const auto &[Colour, Executions] : Saved)
        if (Executions > Most && is_contained(Order, Colour.id()) &&
            (!Classes.getLastCalleeSavedAlias(Colour) || Analysis.Matrix.isPhysRegUsed(Colour)) &&
            Analysis.Matrix.checkInterference(Interval, Colour) == LiveRegMatrix::IK_Free) {
          Best = Colour;
          Most = Executions;
        }
      Analysis.Matrix.assign(Interval, Best);
      Changed |= Best != Now;
    }
  }
}

void Allocation::eraseDead() {
  for (MachineInstr *Dead : DeadRematerialized) {
    Analysis.Intervals.RemoveMachineInstrFromMaps(*Dead);
    Dead->eraseFromParent();
  }
  DeadRematerialized.clear();
}

void Allocation::finish() {
  saveCopies();
  Spiller->postOptimization();
  eraseDead();
}

void Allocation::giveUp() {
  for (const Range &Next : Ranges)
    if (!Registers.reg_nodbg_empty(Next.Register) && Analysis.Map.hasPhys(Next.Register))
      Analysis.Matrix.unassign(Analysis.Intervals.getInterval(Next.Register));
  eraseDead();
}

} // namespace mlbridge::register_allocation
