// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "optimization.h"

#include "plugin/asm_goto.h"
#include "trials/allocation_trials.h"

#include "llvm/Target/TargetMachine.h"

using namespace llvm;

namespace mlbridge::eviction {

Optimization::Optimization(plugin::Settings Options, Module &M)
    : Options(std::move(Options)), M(M) {
  if (const Status Valid = this->Options.validate(); !Valid)
    refuse(Valid);
}

void Optimization::refuse(const Status &Failure) {
  HasFailed = true;
  Options.refuse(M.getContext(), Failure);
}

bool Optimization::wants(const MachineFunction &MF) const {
  return !HasFailed && Options.wants(MF.getFunction(), MF.getTarget().getOptLevel()) &&
         !plugin::hasAsmGotoOutputs(MF);
}

void Optimization::note(const Status &Result) {
  if (Result || HasFailed)
    return;
  HasFailed = true;
  Options.giveUp(M.getContext(), Result);
}

void Optimization::note(const MachineFunction &MF, const Status &Result) {
  if (!Result)
    trial::endTrial(Result);
  note(Result.withContext(MF.getName()));
}

} // namespace mlbridge::eviction
