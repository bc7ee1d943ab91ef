// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// LLVM's own learned advisors, which compute the features, with a runner of ours. They read the
// allocator's private state (stages, cascades, the queue), which no public header shows.
#ifndef MLBRIDGE_EVICTION_LEARNED_H
#define MLBRIDGE_EVICTION_LEARNED_H

#include "eviction_advisor.h"

#include <mlbridge/status.h>

#include "llvm/Analysis/MLModelRunner.h"
#include "llvm/Analysis/TensorSpec.h"

#include <functional>
#include <memory>
#include <vector>

namespace llvm {
class RegAllocPriorityAdvisorProvider;
}

namespace mlbridge::eviction {

/// Makes the runner that is asked, once it is known what LLVM offers it.
using NewRunner =
    std::function<std::unique_ptr<llvm::MLModelRunner>(const std::vector<llvm::TensorSpec> &)>;

/// LLVM's provider of advisors that ask this runner, which it owns. Unsupported: this LLVM's class
/// is laid out differently; nothing was changed then.
Expected<std::unique_ptr<llvm::RegAllocEvictionAdvisorProvider>>
learnedEviction(llvm::LLVMContext &Context, const NewRunner &Make);
/// LLVM 22 only.
Expected<std::unique_ptr<llvm::RegAllocPriorityAdvisorProvider>>
learnedPriority(llvm::LLVMContext &Context, const NewRunner &Make);

} // namespace mlbridge::eviction

#endif
