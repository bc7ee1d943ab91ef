// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "allocation_trials.h"

#include "race.h"

#include "llvm/ADT/STLExtras.h"
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
#include <memory>
#include <sys/wait.h>
#include <unistd.h>

using namespace llvm;

namespace mlbridge::trial {

namespace {

/// The exit code of a run whose allocation LLVM refuses.
constexpr int Refused = 3;

/// Ends the run of a process: the allocator asks, when it is done, whether anyone wants its
/// remarks.
class EndOfAllocation final : public DiagnosticHandler {
public:
  EndOfAllocation(const MachineFunction &MF, std::function<void()> Do)
      : MF(MF), Do(std::move(Do)) {}

private:
  bool isMissedOptRemarkEnabled(StringRef Pass) const override {
    if (Pass == "regalloc")
      Do();
    return false;
  }
  bool isPassedOptRemarkEnabled(StringRef) const override { return false; }
  /// Every pass over machine code asks for this one before it begins.
  bool isAnalysisRemarkEnabled(StringRef Pass) const override {
    if (Pass == "size-info" && !MF.getRegInfo().getNumVirtRegs())
      _exit(1); // the function is past allocation, which has not said that it is done
    return false;
  }
  bool isAnyRemarkEnabled() const override { return false; }
  bool handleDiagnostics(const DiagnosticInfo &Info) override {
    if (Info.getSeverity() <= DS_Warning) // of the allocator, or that the model has failed
      _exit(Refused);
    return true;
  }

  const MachineFunction &MF;
  const std::function<void()> Do;
};

/// The register that an operand will be, once it is rewritten.
MCRegister rewritten(const MachineOperand &Operand, const VirtRegMap &Registers,
                     const TargetRegisterInfo &TRI) {
  if (!Operand.getReg().isVirtual())
    return Operand.getReg().asMCReg();
  const MCRegister Whole = Registers.getPhys(Operand.getReg());
  return Whole && Operand.getSubReg() ? TRI.getSubReg(Whole, Operand.getSubReg()) : Whole;
}

/// The answer of a run.
struct Outcome {
  AllocationCost Cost;
  bool Known = false;
  Code Failure = Code::Ok;
  char Message[1000] = {};
};

/// The answers of all runs; in the process of one, which writes its own.
SharedArray<Outcome> Outcomes;
Outcome *OwnOutcome = nullptr; ///< null in a process that is no run

} // namespace

AllocationCost costOf(const MachineFunction &MF, const VirtRegMap &Registers,
                      const MachineBlockFrequencyInfo &Frequencies) {
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

Expected<std::optional<size_t>>
tryAllocations(const MachineFunction &MF, const VirtRegMap &Registers,
               const MachineBlockFrequencyInfo &Frequencies,
               MutableArrayRef<std::optional<AllocationCost>> Costs) {
  if (const std::string Why = whyNot(); !Why.empty())
    return Status(Code::Unsupported, "allocations can't be compared: " + Why);
  SharedArray<Outcome> Answers;
  if (!Answers.allocate(Costs.size()))
    return Status(Code::Unavailable, std::string("no memory to share: ") + std::strerror(errno));
  SmallVector<size_t, 2> Unknown;
  for (size_t I = 0; I < Costs.size(); ++I)
    if (!Costs[I])
      Unknown.push_back(I);
  SmallVector<Race::End, 2> Ends(Costs.size());
  Race Runs;
  const auto OnEnd = [&Ends](size_t I, Race::End How) {
    Ends[I] = How;
    return true;
  };
  if (const std::optional<size_t> Own = Runs.race(Unknown, Unknown.size(), {}, OnEnd)) {
    Outcomes = std::move(Answers);
    OwnOutcome = &Outcomes[*Own];
    divert(MF.getFunction().getContext(),
           std::make_unique<EndOfAllocation>(
               MF, [&MF, &Registers, &Frequencies] { endTrial(MF, Registers, Frequencies); }));
    return Own;
  }
  if (Runs.error())
    return Status(Code::Unavailable,
                  std::string("no process to try an allocation: ") + std::strerror(Runs.error()));
  Status Failed;
  for (const size_t I : Unknown) {
    const int Ended = Ends[I].Status;
    if (Ends[I].IsLate)
      Failed =
          Status(Code::DeadlineExceeded, "an allocation took longer than a minute to try, so this "
                                         "object may not be reproducible");
    else if (Answers[I].Known)
      Costs[I] = Answers[I].Cost;
    else if (Answers[I].Failure != Code::Ok)
      Failed = Status(Answers[I].Failure, Answers[I].Message);
    else if (!WIFEXITED(Ended) || WEXITSTATUS(Ended) != Refused)
      Failed = Status(Code::Unavailable, "a process that tried an allocation ended too early");
  }
  if (!Failed)
    return Failed;
  return std::optional<size_t>();
}

void endTrial(const Status &Why) {
  if (!OwnOutcome)
    return;
  const std::string &Text = Why.message();
  Text.copy(OwnOutcome->Message, sizeof OwnOutcome->Message - 1);
  OwnOutcome->Failure = Why.code();
  _exit(Refused);
}

void endTrial(const MachineFunction &MF, const VirtRegMap &Registers,
              const MachineBlockFrequencyInfo &Frequencies) {
  if (!OwnOutcome)
    return;
  OwnOutcome->Cost = costOf(MF, Registers, Frequencies);
  OwnOutcome->Known = true;
  _exit(0);
}

void reportAllocation(const char *Optimization, const MachineFunction &MF,
                      const AllocationCost &Taken, const AllocationCost &Instead) {
  using NV = DiagnosticInfoOptimizationBase::Argument;
  MachineOptimizationRemarkEmitter Emitter(const_cast<MachineFunction &>(MF), nullptr);
  Emitter.emit([&] {
    return MachineOptimizationRemark(Optimization, "Compared", DebugLoc(), &MF.front())
           << MF.getName() << ": spills, reloads and copies cost "
           << NV("Cost", std::to_string(Taken.Moves)) << " instead of "
           << NV("Instead", std::to_string(Instead.Moves));
  });
}

Expected<unsigned> effortOf(StringRef Option, StringRef Number, ArrayRef<StringRef> Models) {
  const auto Wrong = [&](const Twine &Expected, StringRef Got) {
    return Status(Code::InvalidArgument, ("-" + Option + ": " + Expected + ", got " + Got).str());
  };
  unsigned Effort = 0;
  if (Number.getAsInteger(10, Effort) || Effort > 100)
    return Wrong("expected 0 to 100", ("'" + Number + "'").str());
  for (StringRef Model : Models)
    if (Effort &&
        !is_contained({"native", "onnx", "aot", "tfaot", "function"}, Model.split(':').first))
      return Wrong("processes that try allocations can't share a connection; expected native:, "
                   "onnx:, aot:, tfaot: or function:",
                   Model);
  return Effort;
}

} // namespace mlbridge::trial
