// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef MLBRIDGE_REGALLOC_ADVICE_EVICTION_H
#define MLBRIDGE_REGALLOC_ADVICE_EVICTION_H

#include "question.h"

namespace mlbridge::regalloc {

/// For one module: advisors that ask the model, or LLVM's default.
std::unique_ptr<llvm::RegAllocEvictionAdvisorProvider> newEvictionProvider(advice::Settings Options,
                                                                           llvm::Module &M);

} // namespace mlbridge::regalloc

#endif
