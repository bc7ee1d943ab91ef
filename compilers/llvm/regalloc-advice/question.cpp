// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "question.h"

#include "asm_goto.h"
#include "trials/allocation_trials.h"

#include "llvm/Target/TargetMachine.h"

using namespace llvm;

namespace mlbridge::regalloc {

Question::Question(advice::Settings Options, Module &M) : Options(std::move(Options)), M(M) {
  if (const Status Right = this->Options.check(); !Right)
    refuse(Right);
}

void Question::refuse(const Status &Why) {
  Failed = true;
  advice::refuse(Options, M.getContext(), Why);
}

bool Question::wants(const MachineFunction &MF) const {
  return !Failed && Options.wants(MF.getFunction(), MF.getTarget().getOptLevel()) &&
         !hasAsmGotoOutputs(MF);
}

void Question::note(const Status &Why) {
  if (Why || Failed)
    return;
  Failed = true;
  advice::giveUp(Options, M.getContext(), Why);
}

void Question::note(const MachineFunction &MF, const Status &Why) {
  if (!Why)
    trial::endTrial(Why);
  note(Status(Why.code(), MF.getName().str() + ": " + Why.message()));
}

} // namespace mlbridge::regalloc
