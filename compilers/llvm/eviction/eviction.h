// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The optimizations of the plugin. Each makes the advisors of one module, which ask the model or
// are LLVM's default.
#ifndef MLBRIDGE_EVICTION_EVICTION_H
#define MLBRIDGE_EVICTION_EVICTION_H

#include "eviction_advisor.h"

#include "llvm/IR/Module.h"

#include <memory>
#include <string>

namespace llvm {
class RegAllocPriorityAdvisorProvider;
}

namespace mlbridge::eviction {

/// True if the options name a model for evictions.
bool hasEvictionModel();
/// `OtherModel` is the URI of another model that the allocator asks, or empty.
std::unique_ptr<llvm::RegAllocEvictionAdvisorProvider>
newEvictionProvider(llvm::Module &M, const std::string &OtherModel = {});

/// The URI of the model for priorities, which LLVM 22 has; empty without one.
std::string priorityModel();
std::unique_ptr<llvm::RegAllocPriorityAdvisorProvider> newPriorityProvider(llvm::Module &M);

} // namespace mlbridge::eviction

#endif
