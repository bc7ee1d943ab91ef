// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Remarks about a module, for whoever asks for them.
#ifndef MLBRIDGE_LLVM_PHASE_ORDERING_REMARKS_H
#define MLBRIDGE_LLVM_PHASE_ORDERING_REMARKS_H

#include "comparison.h"
#include "environment.h"
#include "options.h"

#include "llvm/ADT/ArrayRef.h"
#include "llvm/IR/Module.h"

namespace mlbridge::phase_ordering {

/// A remark that the module is left to the usual passes.
void remarkLeftAlone(llvm::Module &M, llvm::StringRef Why);
/// A remark for each decision.
void remarkDecisions(const llvm::Module &M, llvm::ArrayRef<Decision> Decisions);
/// A remark that says what was kept. A comparison that has failed is given up.
void remarkSelection(const Options &Given, llvm::Module &M, const Selection &Result);

/// The function that remarks are about: the first that has a body; null if none has.
const llvm::Function *firstDefinition(const llvm::Module &M);

} // namespace mlbridge::phase_ordering

#endif
