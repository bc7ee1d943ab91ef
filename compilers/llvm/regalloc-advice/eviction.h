// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef MLBRIDGE_REGALLOC_ADVICE_EVICTION_H
#define MLBRIDGE_REGALLOC_ADVICE_EVICTION_H

#include "question.h"

namespace mlbridge::regalloc {

/// Whether the options name a model.
bool evictionIsAsked();

/// For one module: advisors that ask the model, or LLVM's default. `OtherModel`: the URI of another
/// that the allocator asks, or nothing.
std::unique_ptr<llvm::RegAllocEvictionAdvisorProvider>
newEvictionProvider(llvm::Module &M, const std::string &OtherModel = {});

} // namespace mlbridge::regalloc

#endif
