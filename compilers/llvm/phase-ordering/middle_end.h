// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Takes the place of the host's middle end: keeps its optimizations from running on a module whose
// passes were chosen, and lets everything that a correct object needs run.
#ifndef MLBRIDGE_LLVM_PHASE_ORDERING_MIDDLE_END_H
#define MLBRIDGE_LLVM_PHASE_ORDERING_MIDDLE_END_H

#include "llvm/ADT/StringRef.h"
#include "llvm/IR/PassManager.h"
#include "llvm/Pass.h"
#include "llvm/Passes/PassBuilder.h"
#include "llvm/Support/Error.h"

#include <functional>

namespace mlbridge::phase_ordering {

/// A default pipeline that begins.
struct Pipeline {
  /// "Oz", "O2"; in a link, where pipelines have no level for size, that of the functions: of at
  /// least 95 % of the instructions.
  llvm::StringRef Level;
  llvm::ThinOrFullLTOPhase Phase = llvm::ThinOrFullLTOPhase::None;

  bool isBeforeLink() const {
    return Phase == llvm::ThinOrFullLTOPhase::ThinLTOPreLink ||
           Phase == llvm::ThinOrFullLTOPhase::FullLTOPreLink;
  }
  bool isLink() const { return Phase != llvm::ThinOrFullLTOPhase::None && !isBeforeLink(); }
};

/// Is given the module and its pipeline. True: it has been optimized.
using Chooser =
    std::function<bool(llvm::Module &, llvm::ModuleAnalysisManager &, const Pipeline &)>;

/// Adds a pass to the start of each default pipeline of this builder, also of those that a linker
/// runs. It calls `Choose`, and if that returns true skips the optimizations after it.
void replaceMiddleEnd(llvm::PassBuilder &PB, Chooser Choose);

/// Lowering that cannot wait until after the chosen groups: always_inline, coroutines, entry and
/// exit instrumentation, variable locations.
llvm::Error runMandatoryLowering(llvm::Module &M, llvm::ModuleAnalysisManager &MAM);

} // namespace mlbridge::phase_ordering

#endif
