// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "learned.h"

#include "layout.h"

#include "llvm/CodeGen/RegAllocPriorityAdvisor.h"

using namespace llvm;

namespace mlbridge::eviction {

namespace {

// The members that LLVM's classes, which are in no header, add to their public bases. Without an
// embedded model, LLVM's own runner is no use.
struct EvictionLayout : RegAllocEvictionAdvisorProvider {
  std::vector<llvm::TensorSpec> Features;
  std::unique_ptr<MLModelRunner> Runner;
};
struct PriorityLayout : RegAllocPriorityAdvisorProvider {
  std::unique_ptr<MLModelRunner> Runner;
};

} // namespace

Expected<std::unique_ptr<RegAllocEvictionAdvisorProvider>> learnedEviction(LLVMContext &Context,
                                                                           const NewRunner &Make) {
  std::unique_ptr<RegAllocEvictionAdvisorProvider> Stock(createReleaseModeAdvisorProvider(Context));
  auto *const View = layout::viewOf<EvictionLayout>(*Stock);
  if (!View || !layout::areFeatures(View->Features))
    return layout::isOther();
  View->Runner = Make(View->Features);
  return Stock;
}

Expected<std::unique_ptr<RegAllocPriorityAdvisorProvider>> learnedPriority(LLVMContext &,
                                                                           const NewRunner &Make) {
  std::unique_ptr<RegAllocPriorityAdvisorProvider> Stock(
      createReleaseModePriorityAdvisorProvider());
  auto *const View = layout::viewOf<PriorityLayout>(*Stock);
  if (!View)
    return layout::isOther();
  // Unlike its eviction advisor, LLVM 22 keeps no features here, so they are stated.
  View->Runner = Make({llvm::TensorSpec::createSpec<int64_t>("li_size", {1}),
                       llvm::TensorSpec::createSpec<int64_t>("stage", {1}),
                       llvm::TensorSpec::createSpec<float>("weight", {1})});
  return Stock;
}

} // namespace mlbridge::eviction
