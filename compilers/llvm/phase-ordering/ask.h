// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef MLBRIDGE_LLVM_PHASE_ORDERING_ASK_H
#define MLBRIDGE_LLVM_PHASE_ORDERING_ASK_H

#include "candidates.h"
#include "options.h"

#include "llvm/IR/Module.h"
#include "llvm/IR/PassManager.h"

#include <vector>

namespace mlbridge::phase_ordering {

/// The model's answer about a module.
struct Advice {
  bool IsApplied = false; ///< the module has been optimized as the model said
  std::vector<Candidate> Candidates;
};

/// Runs one episode. With an effort the module is not touched, and what the model has chosen is a
/// candidate. A failure is reported and logged, and there is no advice.
Advice ask(const Options &Given, llvm::Module &M, llvm::ModuleAnalysisManager &MAM, bool Compares);

} // namespace mlbridge::phase_ordering

#endif
