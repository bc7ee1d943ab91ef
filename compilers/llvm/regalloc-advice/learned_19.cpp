// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "learned.h"

#include "layout.h"

#include "llvm/ADT/ScopeExit.h"
#include "llvm/Support/CommandLine.h"

#include <mutex>

using namespace llvm;

namespace mlbridge::regalloc {

namespace {

// What LLVM's class, which is in no header, adds to its base. Its runner is made by the first
// function, unless there is one by then.
struct EvictionLayout : RegAllocEvictionAdvisorAnalysis {
  std::vector<llvm::TensorSpec> Features;
  std::unique_ptr<MLModelRunner> Runner;
};

bool hasLayout(const EvictionLayout &Its) {
  return layout::hasRoom(Its) &&
         Its.getAdvisorMode() == RegAllocEvictionAdvisorAnalysis::AdvisorMode::Release &&
         layout::areFeatures(Its.Features) && layout::isNull(Its.Runner);
}

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
  LearnedProvider(LLVMContext &Context, std::unique_ptr<RegAllocEvictionAdvisorAnalysis> Its)
      : RegAllocEvictionAdvisorProvider(AdvisorMode::Release, Context), Its(std::move(Its)) {}
  ~LearnedProvider() override { Its->setResolver(nullptr); } // which it would delete

private:
  std::unique_ptr<RegAllocEvictionAdvisor> getAdvisor(const MachineFunction &MF, const RAGreedy &RA,
                                                      AnalysisResolver &Passes) override {
    // It is in no pass manager, and finds the analyses as the pass does that is in its place.
    Its->setResolver(&Passes);
    return Its->getAdvisor(MF, RA);
  }

  const std::unique_ptr<RegAllocEvictionAdvisorAnalysis> Its;
};

} // namespace

Expected<std::unique_ptr<RegAllocEvictionAdvisorProvider>> learnedEviction(LLVMContext &Context,
                                                                           const NewRunner &Make) {
  std::unique_ptr<RegAllocEvictionAdvisorAnalysis> Made(makeStock());
  if (!Made)
    return layout::isOther();
  auto &Its = static_cast<EvictionLayout &>(*Made);
  if (!hasLayout(Its))
    return layout::isOther();
  Its.Runner = Make(Its.Features);
  std::unique_ptr<RegAllocEvictionAdvisorProvider> Provider =
      std::make_unique<LearnedProvider>(Context, std::move(Made));
  return Provider;
}

} // namespace mlbridge::regalloc
