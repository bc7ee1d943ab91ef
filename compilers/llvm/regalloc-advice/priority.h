// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef MLBRIDGE_REGALLOC_ADVICE_PRIORITY_H
#define MLBRIDGE_REGALLOC_ADVICE_PRIORITY_H

#include "question.h"

#include "llvm/CodeGen/RegAllocPriorityAdvisor.h"

namespace mlbridge::regalloc {

/// Whether the options name a model.
bool priorityIsAsked();
/// Its URI, or nothing.
std::string priorityModel();

/// For one module: advisors that ask the model, or LLVM's default.
std::unique_ptr<llvm::RegAllocPriorityAdvisorProvider> newPriorityProvider(llvm::Module &M);

} // namespace mlbridge::regalloc

#endif
