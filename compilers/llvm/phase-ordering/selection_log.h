// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef MLBRIDGE_LLVM_PHASE_ORDERING_SELECTION_LOG_H
#define MLBRIDGE_LLVM_PHASE_ORDERING_SELECTION_LOG_H

#include "comparison.h"
#include "options.h"

#include "llvm/IR/Module.h"

namespace mlbridge::phase_ordering {

/// If the options name a folder for logs, writes how a module's candidates were compared, as JSON,
/// to a new file there; the folder is made if missing. The file appears complete or not at all. Its
/// name is that of the source, something unique, and ".trials.json". A failure is a warning.
void logSelection(const Options &Given, llvm::Module &M, const Selection &Result);

} // namespace mlbridge::phase_ordering

#endif
