// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "remarks.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/Analysis/OptimizationRemarkEmitter.h"
#include "llvm/IR/LLVMContext.h"
#include "llvm/IR/LLVMRemarkStreamer.h"

using namespace llvm;

namespace mlbridge::phase_ordering {

static constexpr const char *Name = "phase-ordering";

const llvm::Function *firstDefinition(const Module &M) {
  for (const llvm::Function &F : M)
    if (!F.isDeclaration())
      return &F;
  return nullptr;
}

void remarkLeftAlone(Module &M, StringRef Why) {
  const llvm::Function *F = firstDefinition(M);
  if (!F)
    return;
  LLVMContext &Context = M.getContext();
  const auto Emit = [&](DiagnosticInfoOptimizationBase &&Remark) {
    Remark << "left to the usual passes: " << ore::NV("Reason", Why);
    Context.diagnose(Remark);
  };
  // -Rpass alone shows it, too: whoever asks what was done learns that nothing was.
  if (Context.getDiagHandlerPtr()->isPassedOptRemarkEnabled(Name))
    Emit(OptimizationRemark(Name, "LeftAlone", F));
  else
    Emit(OptimizationRemarkMissed(Name, "LeftAlone", F));
}

void remarkDecisions(const Module &M, ArrayRef<Decision> Decisions) {
  LLVMContext &Context = M.getContext();
  const llvm::Function *F = firstDefinition(M);
  if (!F || !(Context.getLLVMRemarkStreamer() ||
              Context.getDiagHandlerPtr()->isPassedOptRemarkEnabled(Name)))
    return;
  for (const auto &[Step, D] : enumerate(Decisions)) {
    OptimizationRemark Remark(Name, "Decision", F);
    Remark << "step " << ore::NV("Step", unsigned(Step)) << ": " << ore::NV("Group", D.Name)
           << " (action " << ore::NV("Action", unsigned(D.Action)) << ") at "
           << ore::NV("Instructions", unsigned(D.Instructions)) << " instructions";
    Context.diagnose(Remark);
  }
}

void remarkSelection(const Options &Given, Module &M, const Selection &Result) {
  if (!Result.Problem.empty())
    Given.giveUpOn(M, Result.Problem);
  const llvm::Function *F = firstDefinition(M);
  if (!F || !Result.Problem.empty() || !Result.Stock.Bytes)
    return;
  for (const auto &[Run, Candidate] : zip(Result.Runs, Result.Candidates))
    if (Run.End == RunEnd::Crashed) {
      OptimizationRemarkMissed Remark(Name, "Crashed", F);
      Remark << "candidate '" << ore::NV("Candidate", Candidate.Name)
             << "' is left out: LLVM crashed in it";
      M.getContext().diagnose(Remark);
    }
  OptimizationRemark Remark(Name, Result.Winner ? "Smaller" : "StockKept", F);
  if (Result.IsLink)
    Remark << ore::NV("Module", M.getModuleIdentifier()) << ": ";
  if (Result.Winner)
    Remark << ore::NV("Candidate", Result.Candidates[*Result.Winner].Name) << ": "
           << ore::NV("Bytes", Result.Runs[*Result.Winner].Bytes) << " bytes of code instead of "
           << ore::NV("StockBytes", Result.Stock.Bytes);
  else
    Remark << "the usual passes: " << ore::NV("StockBytes", Result.Stock.Bytes)
           << " bytes of code, no candidate is smaller";
  M.getContext().diagnose(Remark);
}

} // namespace mlbridge::phase_ordering
