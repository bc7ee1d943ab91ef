// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A model for the eviction of the greedy register allocator of stock clang and llc, LLVM 19.
//   clang-19 -O2 -Xclang -load -Xclang mlbridge-regalloc-advice-19.so -Xclang -mllvm
//     -Xclang -regalloc-eviction-model=URI
//   llc-19 -load mlbridge-regalloc-advice-19.so -regalloc-eviction-model=URI
#include "eviction.h"
#include "versions/pass_plugin.h"

#include "llvm/InitializePasses.h"
#include "llvm/PassInfo.h"
#include "llvm/PassRegistry.h"

using namespace llvm;

namespace mlbridge::eviction {

namespace {

/// Takes the place of LLVM's analysis of the same ID, which the allocator asks for its advisors.
class EvictionAnalysis final : public RegAllocEvictionAdvisorAnalysis {
public:
  EvictionAnalysis() : RegAllocEvictionAdvisorAnalysis(AdvisorMode::Release) {}

private:
  bool doInitialization(Module &M) override {
    Provider = newEvictionProvider(M);
    return false;
  }
  void getAnalysisUsage(AnalysisUsage &AU) const override {
    AU.addRequired<MachineBlockFrequencyInfoWrapperPass>();
    AU.addRequired<MachineLoopInfoWrapperPass>();
    RegAllocEvictionAdvisorAnalysis::getAnalysisUsage(AU);
  }
  std::unique_ptr<RegAllocEvictionAdvisor> getAdvisor(const MachineFunction &MF,
                                                      const RAGreedy &RA) override {
    return Provider->getAdvisor(MF, RA, *getResolver());
  }

  std::unique_ptr<RegAllocEvictionAdvisorProvider> Provider;
};

/// LLVM 19 calls no one back when it plans its passes, but asks its registry for this one.
struct Replacement {
  Replacement() {
    PassRegistry &Registry = *PassRegistry::getPassRegistry();
    initializeRegAllocEvictionAdvisorAnalysisPass(Registry);
    auto *Info = const_cast<PassInfo *>(Registry.getPassInfo(&RegAllocEvictionAdvisorAnalysis::ID));
    Stock = Info->getNormalCtor();
    Info->setNormalCtor([]() -> Pass * {
      if (hasEvictionModel())
        return new EvictionAnalysis;
      return Stock();
    });
  }
  static inline PassInfo::NormalCtor_t Stock = nullptr;
};
const Replacement Replaced;

} // namespace

} // namespace mlbridge::eviction

// A plugin that clang loads has this; the passes that it could add are of no use here.
extern "C" [[gnu::visibility("default")]] PassPluginLibraryInfo llvmGetPassPluginInfo() {
  return {LLVM_PLUGIN_API_VERSION, "RegAllocAdvice", "1", [](PassBuilder &) {}};
}
