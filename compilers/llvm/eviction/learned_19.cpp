// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "learned.h"

#include "layout.h"

#include "llvm/ADT/ScopeExit.h"
#include "llvm/Support/CommandLine.h"

#include <mutex>

using namespace llvm;

namespace mlbridge::eviction {

namespace {

// The members that LLVM's class, which is in no header, adds to its base.
struct EvictionLayout : RegAllocEvictionAdvisorAnalysis {
  std::vector<llvm::TensorSpec> Features;
  std::unique_ptr<MLModelRunner> Runner;
};

/// LLVM 19 makes the advisor only if its channel has a name. Null: it does not know that option.
RegAllocEvictionAdvisorAnalysis *makeStock() {
  static std::mutex Lock;
  const std::lock_guard<std::mutex> Guard(Lock);
  cl::Option *Channel =
      cl::getRegisteredOptions().lookup("regalloc-evict-interactive-channel-base");
  if (!Channel)
    return nullptr;
  auto &Name = *static_cast<cl::opt<std::string> *>(Channel);
  const auto Restore = make_scope_exit([&, Was = Name.getValue()] { Name.setValue(Was); });
  Name.setValue("unused");
  return createReleaseModeAdvisor();
}

class LearnedProvider final : public RegAllocEvictionAdvisorProvider {
public:
  LearnedProvider(LLVMContext &Context, std::unique_ptr<RegAllocEvictionAdvisorAnalysis> Stock)
      : RegAllocEvictionAdvisorProvider(AdvisorMode::Release, Context), Stock(std::move(Stock)) {}
  ~LearnedProvider() override { Stock->setResolver(nullptr); } // which it would delete

private:
  std::unique_ptr<RegAllocEvictionAdvisor> getAdvisor(const MachineFunction &MF, const RAGreedy &RA,
                                                      AnalysisResolver &Passes) override {
    // It is in no pass manager, and finds the analyses as the pass does that is in its place.
    Stock->setResolver(&Passes);
    return Stock->getAdvisor(MF, RA);
  }

  const std::unique_ptr<RegAllocEvictionAdvisorAnalysis> Stock;
};

} // namespace

Expected<std::unique_ptr<RegAllocEvictionAdvisorProvider>> learnedEviction(LLVMContext &Context,
                                                                           const NewRunner &Make) {
  std::unique_ptr<RegAllocEvictionAdvisorAnalysis> Stock(makeStock());
  auto *const View = Stock ? layout::viewOf<EvictionLayout>(*Stock) : nullptr;
  if (!View || !layout::areFeatures(View->Features))
    return layout::isOther();
  View->Runner = Make(View->Features);
  std::unique_ptr<RegAllocEvictionAdvisorProvider> Provider =
      std::make_unique<LearnedProvider>(Context, std::move(Stock));
  return Provider;
}

} // namespace mlbridge::eviction
