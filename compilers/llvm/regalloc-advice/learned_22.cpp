// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "learned.h"

#include "layout.h"

#include "llvm/CodeGen/RegAllocPriorityAdvisor.h"

using namespace llvm;

namespace mlbridge::regalloc {

namespace {

// What LLVM's classes, which are in no header, add to their public bases. Their runner is made by
// the first function, unless there is one by then; without an embedded model that one is no use.
struct EvictionLayout : RegAllocEvictionAdvisorProvider {
  std::vector<llvm::TensorSpec> Features;
  std::unique_ptr<MLModelRunner> Runner;
};
struct PriorityLayout : RegAllocPriorityAdvisorProvider {
  std::unique_ptr<MLModelRunner> Runner;
};

bool hasLayout(const EvictionLayout &Its) {
  return layout::hasRoom(Its) &&
         Its.getAdvisorMode() == RegAllocEvictionAdvisorProvider::AdvisorMode::Release &&
         layout::areFeatures(Its.Features) && layout::isNull(Its.Runner);
}

bool hasLayout(const PriorityLayout &Its) {
  return layout::hasRoom(Its) &&
         Its.getAdvisorMode() == RegAllocPriorityAdvisorProvider::AdvisorMode::Release &&
         layout::isNull(Its.Runner);
}

} // namespace

Expected<std::unique_ptr<RegAllocEvictionAdvisorProvider>> learnedEviction(LLVMContext &Context,
                                                                           const NewRunner &Make) {
  std::unique_ptr<RegAllocEvictionAdvisorProvider> Made(createReleaseModeAdvisorProvider(Context));
  auto &Its = static_cast<EvictionLayout &>(*Made);
  if (!hasLayout(Its))
    return layout::isOther();
  Its.Runner = Make(Its.Features);
  return Made;
}

Expected<std::unique_ptr<RegAllocPriorityAdvisorProvider>> learnedPriority(LLVMContext &,
                                                                           const NewRunner &Make) {
  std::unique_ptr<RegAllocPriorityAdvisorProvider> Made(createReleaseModePriorityAdvisorProvider());
  auto &Its = static_cast<PriorityLayout &>(*Made);
  if (!hasLayout(Its))
    return layout::isOther();
  // Not kept by LLVM 22 as by its eviction advisor, so they are stated here.
  Its.Runner = Make({llvm::TensorSpec::createSpec<int64_t>("li_size", {1}),
                     llvm::TensorSpec::createSpec<int64_t>("stage", {1}),
                     llvm::TensorSpec::createSpec<float>("weight", {1})});
  return Made;
}

} // namespace mlbridge::regalloc
