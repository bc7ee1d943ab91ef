// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Models for the greedy register allocator of stock clang and llc, LLVM 22.
//   clang-22 -O2 -Xclang -fpass-plugin=mlbridge-regalloc-advice.so -Xclang -mllvm
//     -Xclang -regalloc-eviction-model=URI
//   llc-22 -load mlbridge-regalloc-advice.so -regalloc-eviction-model=URI
#include "eviction.h"
#include "versions/pass_plugin.h"

#include "llvm/CodeGen/RegAllocPriorityAdvisor.h"
#include "llvm/IR/LegacyPassManager.h"
#include "llvm/Target/RegisterTargetPassConfigCallback.h"
#include "llvm/Target/TargetMachine.h"

using namespace llvm;

namespace mlbridge::eviction {

namespace {

/// Takes the place of LLVM's analysis of the same ID, which the allocator asks for its advisors.
class EvictionAnalysis final : public RegAllocEvictionAdvisorAnalysisLegacy {
public:
  EvictionAnalysis() : RegAllocEvictionAdvisorAnalysisLegacy(AdvisorMode::Release) {}

private:
  bool doInitialization(Module &M) override {
    Provider = newEvictionProvider(M, priorityModel());
    return false;
  }
};

class PriorityAnalysis final : public RegAllocPriorityAdvisorAnalysisLegacy {
public:
  PriorityAnalysis() : RegAllocPriorityAdvisorAnalysisLegacy(AdvisorMode::Release) {}

private:
  bool doInitialization(Module &M) override {
    Provider = newPriorityProvider(M);
    return false;
  }
};

const RegisterTargetPassConfigCallback AddAnalyses([](TargetMachine &Target,
                                                      PassManagerBase &Passes, TargetPassConfig *) {
  if (Target.getOptLevel() == CodeGenOptLevel::None) // another allocator
    return;
  if (hasEvictionModel())
    Passes.add(new EvictionAnalysis);
  if (!priorityModel().empty())
    Passes.add(new PriorityAnalysis);
});

} // namespace

} // namespace mlbridge::eviction

// A plugin that clang loads has this; the passes that it could add are of no use here.
extern "C" [[gnu::visibility("default")]] PassPluginLibraryInfo llvmGetPassPluginInfo() {
  return {LLVM_PLUGIN_API_VERSION, "RegAllocAdvice", "1", [](PassBuilder &) {}};
}
