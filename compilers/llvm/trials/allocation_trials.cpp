// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "allocation_trials.h"

#include "trial_process.h"

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
#include <poll.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

using namespace llvm;

namespace mlbridge::trial {

namespace {

/// The exit code of a trial whose allocation LLVM refuses.
constexpr int Refused = 3;

/// In a process that tries: the allocator asks, when it is done, whether anyone wants its remarks.
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

/// What a register will be, once it is rewritten.
MCRegister rewritten(const MachineOperand &Of, const VirtRegMap &Registers,
                     const TargetRegisterInfo &TRI) {
  if (!Of.getReg().isVirtual())
    return Of.getReg().asMCReg();
  const MCRegister Whole = Registers.getPhys(Of.getReg());
  return Whole && Of.getSubReg() ? TRI.getSubReg(Whole, Of.getSubReg()) : Whole;
}

/// What a process says of its trial.
struct Outcome {
  AllocationCost Cost;
  bool Known = false;
  Code Failure = Code::Ok;
  char Message[1000] = {};
};

/// Of this process, if it tries.
Outcome *Mine = nullptr;

struct Unmap {
  size_t Bytes;
  void operator()(Outcome *Shared) const { munmap(Shared, Bytes); }
};

int millisecondsUntil(std::chrono::steady_clock::time_point Then) {
  const auto Left = Then - std::chrono::steady_clock::now();
  return int(
      std::max<int64_t>(0, std::chrono::duration_cast<std::chrono::milliseconds>(Left).count()));
}

/// Whether it has ended by then.
bool endsBy(std::chrono::steady_clock::time_point Then, const Child &Its) {
  pollfd End{Its.Alive, POLLIN, 0};
  int Ready = 0;
  while ((Ready = poll(&End, 1, millisecondsUntil(Then))) < 0 && errno == EINTR) {
  }
  return Ready > 0;
}

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
  const size_t Count = Costs.size(), Bytes = Count * sizeof(Outcome);
  void *Memory = mmap(nullptr, Bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (Memory == MAP_FAILED)
    return Status(Code::Unavailable, std::string("no memory to share: ") + std::strerror(errno));
  std::unique_ptr<Outcome[], Unmap> Shared(new (Memory) Outcome[Count], Unmap{Bytes});
  const auto Deadline = std::chrono::steady_clock::now() + Longest;
  SmallVector<Child, 2> Trials(Count);
  Status Failed;
  for (size_t I = 0; I < Count && Failed; ++I) {
    if (Costs[I])
      continue;
    if (Trials[I].fork()) {
      Mine = Shared.release() + I;
      isolate(Trials[I].Alive);
      divert(MF.getFunction().getContext(),
             std::make_unique<EndOfAllocation>(
                 MF, [&MF, &Registers, &Frequencies] { endTrial(MF, Registers, Frequencies); }));
      return std::optional<size_t>(I);
    }
    if (Trials[I].Id < 0)
      Failed = Status(Code::Unavailable,
                      std::string("no process to try an allocation: ") + std::strerror(errno));
  }
  for (size_t I = 0; I < Count; ++I) {
    if (Trials[I].Id < 0)
      continue;
    if (!endsBy(Deadline, Trials[I])) {
      Trials[I].end();
      Failed = Status(Code::DeadlineExceeded,
                      "an allocation took longer than a minute to try, so this object may not be "
                      "reproducible");
      continue;
    }
    const int Ended = Trials[I].reap();
    if (Shared[I].Known)
      Costs[I] = Shared[I].Cost;
    else if (Shared[I].Failure != Code::Ok)
      Failed = Status(Shared[I].Failure, Shared[I].Message);
    else if (!WIFEXITED(Ended) || WEXITSTATUS(Ended) != Refused)
      Failed = Status(Code::Internal, "a process that tried an allocation ended too early");
  }
  if (!Failed)
    return Failed;
  return std::optional<size_t>();
}

void endTrial(const Status &Why) {
  if (!Mine)
    return;
  const std::string &Text = Why.message();
  Text.copy(Mine->Message, sizeof Mine->Message - 1);
  Mine->Failure = Why.code();
  _exit(Refused);
}

void endTrial(const MachineFunction &MF, const VirtRegMap &Registers,
              const MachineBlockFrequencyInfo &Frequencies) {
  if (!Mine)
    return;
  Mine->Cost = costOf(MF, Registers, Frequencies);
  Mine->Known = true;
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
