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

namespace mlbridge::allocation {

/// Of what spilling leaves: it isn't split.
static constexpr unsigned NoSplit = ~0U;
/// No live range must give up its register more often, but for one that can't be spilled.
static constexpr unsigned MaxEvicted = 8;

Allocation::Allocation(MachineFunction &MF, const Analyses &Its)
    : MF(MF), Registers(MF.getRegInfo()), Target(*MF.getSubtarget().getRegisterInfo()), Its(Its),
      Weights(MF, Its.Intervals, Its.Map, Its.Loops, Its.Frequencies) {}

Allocation::~Allocation() = default;

std::string Allocation::refusal(const Triple &For) {
  if (For.getArch() != Triple::x86_64 && !For.isAArch64())
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
  connectAll();
}

bool Allocation::isOnlyCopied(size_t Range) const {
  const Register Its = Ranges[Range].Register;
  if (!Ranges[Range].Spillable || Ranges[Range].Depth == NoSplit || MF.getFunction().hasOptSize() ||
      !Registers.hasOneDef(Its) || Registers.use_nodbg_empty(Its))
    return false;
  const MachineInstr &Made = *Registers.def_instr_begin(Its);
  return Made.getNumDefs() == 1 && !Made.getOperand(0).getSubReg() && !Made.mayLoad() &&
         MF.getSubtarget().getInstrInfo()->isTriviallyReMaterializable(Made) &&
         all_of(Registers.use_nodbg_instructions(Its), [](const MachineInstr &Use) {
           return Use.isFullCopy() && Use.getOperand(0).getReg().isPhysical();
         });
}

LiveInterval &Allocation::interval(size_t Range) const {
  return Its.Intervals.getInterval(Ranges[Range].Register);
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

void Allocation::describe(Range &Of) {
  const LiveInterval &Its = this->Its.Intervals.getInterval(Of.Register);
  Of.Spillable = Its.isSpillable();
  Of.Weight = Of.Spillable && std::isfinite(Its.weight()) ? Its.weight() : 0;
  Of.Size = Its.getSize() / SlotIndex::InstrDist;
  Of.Uses = 0;
  Of.Executions = 0;
  for (auto I = Registers.reg_instr_nodbg_begin(Of.Register), E = Registers.reg_instr_nodbg_end();
       I != E; ++I) {
    ++Of.Uses;
    Of.Executions += frequency(*I->getParent());
  }
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
  for (std::vector<uint32_t> &Those : Adjacent) {
    sort(Those);
    Those.erase(std::unique(Those.begin(), Those.end()), Those.end());
  }
}

void Allocation::connect(size_t Range) {
  const auto Number = static_cast<uint32_t>(Range);
  for (const uint32_t Old : Adjacent[Range])
    Adjacent[Old].erase(lower_bound(Adjacent[Old], Number));
  Adjacent[Range].clear();
  // One of undefined uses only is empty.
  if (Registers.reg_nodbg_empty(Ranges[Range].Register) || interval(Range).empty())
    return;
  const LiveInterval &Of = interval(Range);
  for (uint32_t I = 0; I < Ranges.size(); ++I)
    if (I != Range && !Ranges[I].Gone && canInterfere(I, Range) &&
        !Registers.reg_nodbg_empty(Ranges[I].Register) && Of.overlaps(interval(I))) {
      Adjacent[Range].push_back(I);
      Adjacent[I].insert(lower_bound(Adjacent[I], Number), Number);
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
  for (const uint32_t I : Adjacent[Range])
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
  if (any_of(All, [](const Colour &One) { return One.Is == Availability::Free; }))
    return All;
  for (Colour &One : All) {
    if (One.Is != Availability::Neighbour)
      continue;
    const auto Holders = holders(Of, One.Register);
    One.CanEvict = all_of(Holders, [&](size_t I) {
      return Ranges[I].Spillable && Ranges[I].Evicted < MaxEvicted &&
             interval(I).weight() < Of.weight();
    });
    for (const size_t I : Holders)
      One.Evicts += Ranges[I].Executions;
  }
  return All;
}

SmallVector<size_t, 8> Allocation::holders(const LiveInterval &Of, MCRegister With) {
  SmallVector<size_t, 8> Found;
  for (const MCRegUnit Unit : Target.regunits(With))
    for (const LiveInterval *Holder : Its.Matrix.query(Of, Unit).interferingVRegs())
      if (const size_t I = Numbers.lookup(Holder->reg()); !is_contained(Found, I))
        Found.push_back(I);
  return Found;
}

void Allocation::evict(ArrayRef<size_t> Holders) {
  for (const size_t I : Holders) {
    Its.Matrix.unassign(interval(I));
    Ranges[I].Waits = true;
    ++Ranges[I].Evicted;
    remark(I, "Evict", "gives up its register");
  }
}

float Allocation::frequency(const MachineBasicBlock &Of) const {
  return static_cast<float>(Its.Frequencies.getBlockFreqRelativeToEntryBlock(&Of));
}

void Allocation::remark(size_t Range, StringRef Kind, const Twine &What) {
  const auto Make = [&] {
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
  };
  if (!Holds)
    Its.Remarks.emit(Make);
  else if (Its.Remarks.allowExtraAnalysis("register-allocation"))
    Held.push_back(Make());
}

void Allocation::publish() {
  Holds = false;
  for (MachineOptimizationRemark &Next : Held)
    Its.Remarks.emit(Next);
  Held.clear();
}

void Allocation::colour(size_t Range, MCRegister With) {
  evict(holders(interval(Range), With));
  remark(Range, "Colour", Target.getName(With));
  Its.Matrix.assign(interval(Range), With);
  Ranges[Range].Waits = false;
}

void Allocation::spill(size_t Range) {
  if (isOnlyCopied(Range))
    remark(Range, "Rematerialize", "computed again for each copy");
  else
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
  refresh(Edit.regs(), NoSplit);
}

void Allocation::split(size_t Range, const Point &At) {
  remark(Range, "Split", "split");
  SmallVector<Register, 4> Made;
  const LiveInterval &Of = interval(Range);
  const Register Old = Of.reg();
  LiveRangeEdit Edit(&Of, Made, MF, Its.Intervals, &Its.Map, this, &DeadRematerialized);
  const Register Rest = Edit.create(), Part = Edit.create();
  const SmallPtrSet<const MachineInstr *, 16> IsPart(At.Uses.begin(), At.Uses.end());
  for (MachineOperand &Operand : make_early_inc_range(Registers.reg_operands(Old)))
    Operand.setReg(IsPart.contains(Operand.getParent()) ? Part : Rest);
  SmallVector<MachineInstr *, 4> Copies, Dead;
  for (const Point::Copy &Copy : At.Copies) {
    const DebugLoc Where = Copy.Block->findDebugLoc(Copy.Before);
    MachineInstr *const Made =
        BuildMI(*Copy.Block, Copy.Before, Where,
                MF.getSubtarget().getInstrInfo()->get(TargetOpcode::COPY), Copy.Into ? Part : Rest)
            .addReg(Copy.Into ? Rest : Part);
    Its.Intervals.InsertMachineInstrInMaps(*Made);
    Copies.push_back(Made);
  }
  for (const Register New : {Rest, Part}) {
    Registers.clearKillFlags(New);
    LiveInterval &Whole = Its.Intervals.createAndComputeVirtRegInterval(New);
    SmallVector<LiveInterval *, 4> Apart;
    Its.Intervals.splitSeparateComponents(Whole, Apart);
    for (const LiveInterval *Other : Apart)
      Its.Map.setIsSplitFromReg(Other->reg(), Its.Map.getOriginal(Old));
  }
  // Spilled, one that nothing uses would be a load that doesn't say so.
  copy_if(Copies, std::back_inserter(Dead),
          [](MachineInstr *Copy) { return Copy->allDefsAreDead(); });
  Edit.eliminateDeadDefs(Dead);
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
  MCRegister Best;
  float Least = 0;
  for (const Colour &Next : colours(Range)) {
    if (Next.Is != Availability::Neighbour)
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

void Allocation::saveCopies() {
  bool Changed = true;
  for (unsigned Round = 0; Changed && Round < 3; ++Round) {
    Changed = false;
    for (const Range &Next : Ranges) {
      if (Next.Gone || !Its.Map.hasPhys(Next.Register))
        continue;
      SmallVector<std::pair<MCRegister, float>, 4> Saved;
      for (const MachineInstr &Copy : Registers.reg_nodbg_instructions(Next.Register)) {
        if (!Copy.isFullCopy())
          continue;
        const bool IsFrom = Copy.getOperand(1).getReg() == Next.Register;
        const Register Other = Copy.getOperand(IsFrom ? 0 : 1).getReg();
        const MCRegister With = Other.isVirtual() ? Its.Map.getPhys(Other) : Other.asMCReg();
        auto *const Found = find_if(Saved, [&](const auto &One) { return One.first == With; });
        if (Found != Saved.end())
          Found->second += frequency(*Copy.getParent());
        else if (With)
          Saved.emplace_back(With, frequency(*Copy.getParent()));
      }
      const MCRegister Now = Its.Map.getPhys(Next.Register);
      float Most = 0;
      for (const auto &One : Saved)
        if (One.first == Now)
          Most = One.second;
      if (none_of(Saved, [&](const auto &One) { return One.second > Most; }))
        continue;
      const LiveInterval &Of = Its.Intervals.getInterval(Next.Register);
      const ArrayRef<MCPhysReg> Order = Classes.getOrder(Registers.getRegClass(Next.Register));
      Its.Matrix.unassign(Of);
      MCRegister Best = Now;
      for (const auto &[With, Executions] : Saved)
        if (Executions > Most && is_contained(Order, With.id()) &&
            (!Classes.getLastCalleeSavedAlias(With) || Its.Matrix.isPhysRegUsed(With)) &&
            Its.Matrix.checkInterference(Of, With) == LiveRegMatrix::IK_Free) {
          Best = With;
          Most = Executions;
        }
      Its.Matrix.assign(Of, Best);
      Changed |= Best != Now;
    }
  }
}

void Allocation::finish() {
  saveCopies();
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
