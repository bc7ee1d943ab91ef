// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "comparison.h"

#include "trial_process.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/ScopeExit.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/CodeGen/MachineBlockFrequencyInfo.h"
#include "llvm/CodeGen/MachineFrameInfo.h"
#include "llvm/CodeGen/MachineMemOperand.h"
#include "llvm/CodeGen/MachineOptimizationRemarkEmitter.h"
#include "llvm/CodeGen/PseudoSourceValue.h"
#include "llvm/CodeGen/TargetInstrInfo.h"
#include "llvm/CodeGen/TargetOpcodes.h"
#include "llvm/CodeGen/TargetRegisterInfo.h"
#include "llvm/CodeGen/TargetSubtargetInfo.h"
#include "llvm/CodeGen/VirtRegMap.h"
#include "llvm/IR/DiagnosticInfo.h"

#include <cerrno>
#include <cstring>
#include <functional>
#include <poll.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

using namespace llvm;

namespace mlbridge::regalloc {

namespace {

/// The exit code of a trial whose allocation LLVM refuses.
constexpr int Refused = 3;

/// In a process that tries: the allocator asks, when it is done, whether anyone wants its remarks.
class EndOfAllocation final : public DiagnosticHandler {
public:
  explicit EndOfAllocation(std::function<void()> Do) : Do(std::move(Do)) {}

private:
  bool isMissedOptRemarkEnabled(StringRef Pass) const override {
    if (Pass == "regalloc")
      Do();
    return false;
  }
  bool isPassedOptRemarkEnabled(StringRef) const override { return false; }
  bool isAnalysisRemarkEnabled(StringRef) const override { return false; }
  bool isAnyRemarkEnabled() const override { return false; }
  bool handleDiagnostics(const DiagnosticInfo &Info) override {
    if (Info.getSeverity() <= DS_Warning) // of the allocator, or that the model has failed
      _exit(Refused);
    return true;
  }

  const std::function<void()> Do;
};

/// What a register will be, once it is rewritten.
MCRegister rewritten(const MachineOperand &Of, const VirtRegMap &Registers,
                     const TargetRegisterInfo &TRI) {
  if (!Of.getReg().isVirtual())
    return Of.getReg().asMCReg();
  const MCRegister Whole = Registers.getPhys(Of.getReg());
  return Whole && Of.getSubReg() ? TRI.getSubReg(Whole, Of.getSubReg()) : Whole;
}

} // namespace

/// Counts as the allocator's own report, whose numbers LLVM keeps to itself.
AllocationCost Comparison::cost() const {
  const TargetInstrInfo &TII = *MF.getSubtarget().getInstrInfo();
  const TargetRegisterInfo &TRI = *MF.getSubtarget().getRegisterInfo();
  const MachineFrameInfo &Frame = MF.getFrameInfo();
  const auto IsSpillSlot = [&](const MachineMemOperand *Access) {
    const auto *Slot = cast<FixedStackPseudoSourceValue>(Access->getPseudoValue());
    return Frame.isSpillSlotObjectIndex(Slot->getFrameIndex());
  };
  AllocationCost Sum;
  SmallVector<const MachineMemOperand *, 2> Loads, Stores;
  for (const MachineBasicBlock &Block : MF) {
    unsigned Moves = 0, Operations = 0;
    for (const MachineInstr &Instruction : Block) {
      if (Instruction.isMetaInstruction())
        continue;
      if (const auto Copy = TII.isCopyInstr(Instruction)) {
        const MachineOperand &To = *Copy->Destination, &From = *Copy->Source;
        if ((To.getReg().isVirtual() || From.getReg().isVirtual()) &&
            rewritten(To, Registers, TRI) == rewritten(From, Registers, TRI))
          continue; // it will be removed
        Moves += To.getReg().isVirtual() || From.getReg().isVirtual();
        ++Operations;
        continue;
      }
      ++Operations;
      int Slot = 0;
      if ((TII.isLoadFromStackSlot(Instruction, Slot) ||
           TII.isStoreToStackSlot(Instruction, Slot)) &&
          Frame.isSpillSlotObjectIndex(Slot)) {
        ++Moves;
        continue;
      }
      const unsigned Opcode = Instruction.getOpcode();
      if (is_contained({TargetOpcode::STACKMAP, TargetOpcode::PATCHPOINT, TargetOpcode::STATEPOINT},
                       Opcode))
        continue; // they say where values are, and read none
      Loads.clear();
      Stores.clear();
      unsigned Folded = 0;
      if (TII.hasLoadFromStackSlot(Instruction, Loads) && any_of(Loads, IsSpillSlot))
        Folded = Loads.size();
      else if (TII.hasStoreToStackSlot(Instruction, Stores) && any_of(Stores, IsSpillSlot))
        Folded = Stores.size();
      Moves += Folded;
      Operations += Folded;
    }
    const double Frequency = Frequencies.getBlockFreqRelativeToEntryBlock(&Block);
    Sum.Moves += Frequency * Moves;
    Sum.Operations += Frequency * Operations;
  }
  return Sum;
}

/// In the child.
void Comparison::become(Plan Mine, Outcome &Its) {
  trial::isolate();
  trial::divert(MF.getFunction().getContext(), std::make_unique<EndOfAllocation>([this, &Its] {
                  Its.Cost = cost();
                  Its.Known = true;
                  _exit(0);
                }));
  Left = 0;
  Tried = Mine;
  TakesModel = Mine.Later;
}

/// Outcomes that are not known: LLVM refuses such an allocation.
Status Comparison::compare(ArrayRef<Plan> Plans, MutableArrayRef<Outcome> Outcomes) {
  if (const std::string Why = trial::whyNot(); !Why.empty())
    return Status(Code::Unsupported, "allocations can't be compared: " + Why);
  const size_t Bytes = Plans.size() * sizeof(Outcome);
  void *Memory = mmap(nullptr, Bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (Memory == MAP_FAILED)
    return Status(Code::Unavailable, std::string("no memory to share: ") + std::strerror(errno));
  auto Unmap = make_scope_exit([=] { munmap(Memory, Bytes); });
  auto *Shared = new (Memory) Outcome[Plans.size()];
  const auto Deadline = std::chrono::steady_clock::now() + trial::Longest;
  SmallVector<trial::Child, 2> Trials(Plans.size());
  Status Failed;
  for (size_t I = 0; I < Plans.size() && Failed; ++I) {
    if (Trials[I].fork()) {
      Unmap.release();
      become(Plans[I], Shared[I]);
      return Status();
    }
    if (Trials[I].Id < 0)
      Failed = Status(Code::Unavailable,
                      std::string("no process to try an allocation: ") + std::strerror(errno));
  }
  for (size_t I = 0; I < Plans.size() && Trials[I].Id > 0; ++I) {
    pollfd End{Trials[I].Alive, POLLIN, 0};
    int Left = 0;
    do
      Left = int(std::max<int64_t>(0, std::chrono::duration_cast<std::chrono::milliseconds>(
                                          Deadline - std::chrono::steady_clock::now())
                                          .count()));
    while (poll(&End, 1, Left) < 0 && errno == EINTR);
    if (!End.revents) {
      Trials[I].end();
      Failed = Status(Code::DeadlineExceeded,
                      "an allocation took longer than a minute to try, so this object may not be "
                      "reproducible");
      continue;
    }
    const int Ended = Trials[I].reap();
    Outcomes[I] = Shared[I];
    if (!Outcomes[I].Known && !(WIFEXITED(Ended) && WEXITSTATUS(Ended) == Refused))
      Failed = Status(Code::Internal, "a process that tried an allocation crashed");
  }
  return Failed;
}

Expected<bool> Comparison::takesModel() {
  if (Left == 0)
    return TakesModel;
  const bool First = !Best;
  SmallVector<Plan, 2> Plans;
  if (First)
    Plans = {{true, true}, {false, false}};
  else
    Plans = {{!TakesModel, TakesModel}};
  --Left;
  Outcome Outcomes[2];
  const Status Compared = compare(Plans, Outcomes);
  if (Tried)
    return Tried->Now;
  if (!Compared) {
    Left = 0;
    TakesModel = false;
    return Compared;
  }
  const AllocationCost Usual = First ? Outcomes[1].Cost : *Best;
  const bool Better = Outcomes[0].Known && Outcomes[0].Cost.isBelow(Usual);
  if (First) {
    TakesModel = Better;
    if (!Outcomes[1].Known)
      Left = 0; // LLVM will say why
  }
  Best = Better ? Outcomes[0].Cost : Usual;
  if (!Better)
    return First ? false : TakesModel;
  report(Usual);
  return Plans[0].Now;
}

void Comparison::report(const AllocationCost &Instead) const {
  using NV = DiagnosticInfoOptimizationBase::Argument;
  MachineOptimizationRemarkEmitter Emitter(const_cast<MachineFunction &>(MF), nullptr);
  Emitter.emit([&] {
    return MachineOptimizationRemark("regalloc-eviction", "Compared", DebugLoc(), &MF.front())
           << MF.getName() << ": spills, reloads and copies cost "
           << NV("Cost", std::to_string(Best->Moves)) << " instead of "
           << NV("Instead", std::to_string(Instead.Moves));
  });
}

} // namespace mlbridge::regalloc
