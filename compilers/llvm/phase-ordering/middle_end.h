// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Takes the place of the host's middle end: keeps its optimizations from running on a module whose
// passes were chosen, and lets everything that a correct object needs run.
#ifndef MLBRIDGE_LLVM_PHASE_ORDERING_MIDDLE_END_H
#define MLBRIDGE_LLVM_PHASE_ORDERING_MIDDLE_END_H

#include "llvm/ADT/StringRef.h"
#include "llvm/IR/PassManager.h"
#include "llvm/Passes/PassBuilder.h"
#include "llvm/Support/Error.h"

#include <functional>

namespace mlbridge::phase_ordering {

/// Is given the module and the level of its pipeline, such as "Oz". True: it has been optimized.
using Chooser =
    std::function<bool(llvm::Module &, llvm::ModuleAnalysisManager &, llvm::StringRef Level)>;

/// Adds a pass to the start of each default pipeline of this builder. Above -O0 it calls `Choose`,
/// and if that returns true skips the optimizations after it. Pipelines at -O0, and those of which
/// a linker optimizes the result or that a linker runs, are left alone: `Leave` is told why.
void replaceMiddleEnd(llvm::PassBuilder &PB, Chooser Choose,
                      std::function<void(llvm::Module &, llvm::StringRef Why)> Leave = nullptr);

/// Lowering that cannot wait until after the chosen groups: always_inline, coroutines, entry and
/// exit instrumentation, variable locations.
llvm::Error runMandatoryLowering(llvm::Module &M, llvm::ModuleAnalysisManager &MAM);

} // namespace mlbridge::phase_ordering

#endif
