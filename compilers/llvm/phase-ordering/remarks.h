// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Messages about a module: a warning or an error, or remarks for whoever asks for them.
#ifndef MLBRIDGE_LLVM_PHASE_ORDERING_REMARKS_H
#define MLBRIDGE_LLVM_PHASE_ORDERING_REMARKS_H

#include "comparison.h"
#include "environment.h"
#include "options.h"

#include "llvm/ADT/ArrayRef.h"
#include "llvm/IR/DiagnosticInfo.h"
#include "llvm/IR/Module.h"

namespace mlbridge::phase_ordering {

/// A warning or an error.
void report(llvm::Module &M, llvm::DiagnosticSeverity Severity, const llvm::Twine &Message);
/// A warning that the module is left to the usual passes, or an error if the options say so.
void giveUp(const Options &Given, llvm::Module &M, const std::string &Why);
/// The failure of the model or environment at a URI, which the message names once.
std::string failureAt(const std::string &Uri, const Status &Why);

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
