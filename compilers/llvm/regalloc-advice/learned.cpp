// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "learned.h"

#include "llvm/ADT/STLExtras.h"

#include <cstring>
#include <malloc.h>

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

/// A word of a member that may be something else, if the object is laid out differently.
template <typename T> uintptr_t wordOf(const T &Member, size_t Index = 0) {
  uintptr_t Word;
  std::memcpy(&Word, reinterpret_cast<const char *>(&Member) + Index * sizeof(Word), sizeof(Word));
  return Word;
}

/// Of the heap's block that begins there.
size_t sizeAt(const void *Block) { return malloc_usable_size(const_cast<void *>(Block)); }

bool hasLayout(const EvictionLayout &Its) {
  if (sizeAt(&Its) < sizeof(Its) ||
      Its.getAdvisorMode() != RegAllocEvictionAdvisorProvider::AdvisorMode::Release)
    return false;
  // A vector of libstdc++: begin, end, end of storage.
  const uintptr_t Begin = wordOf(Its.Features), End = wordOf(Its.Features, 1),
                  Room = wordOf(Its.Features, 2);
  if (!Begin || Begin >= End || End > Room || (End - Begin) % sizeof(llvm::TensorSpec) ||
      wordOf(Its.Runner))
    return false;
  return any_of(Its.Features, [](const llvm::TensorSpec &F) { return F.name() == "mask"; });
}

bool hasLayout(const PriorityLayout &Its) {
  return sizeAt(&Its) >= sizeof(Its) &&
         Its.getAdvisorMode() == RegAllocPriorityAdvisorProvider::AdvisorMode::Release &&
         !wordOf(Its.Runner);
}

Status otherLayout() {
  return Status(
      Code::Unsupported,
      "the learned advisor of this LLVM is not laid out as that of LLVM " LLVM_VERSION_STRING
      ", for which this plugin was built");
}

} // namespace

Expected<std::unique_ptr<RegAllocEvictionAdvisorProvider>> learnedEviction(LLVMContext &Context,
                                                                           const NewRunner &Make) {
  std::unique_ptr<RegAllocEvictionAdvisorProvider> Made(createReleaseModeAdvisorProvider(Context));
  auto &Its = static_cast<EvictionLayout &>(*Made);
  if (!hasLayout(Its))
    return otherLayout();
  Its.Runner = Make(Its.Features);
  return Made;
}

Expected<std::unique_ptr<RegAllocPriorityAdvisorProvider>> learnedPriority(LLVMContext &,
                                                                           const NewRunner &Make) {
  std::unique_ptr<RegAllocPriorityAdvisorProvider> Made(createReleaseModePriorityAdvisorProvider());
  auto &Its = static_cast<PriorityLayout &>(*Made);
  if (!hasLayout(Its))
    return otherLayout();
  // Not kept by LLVM 22 as by its eviction advisor, so they are stated here.
  Its.Runner = Make({llvm::TensorSpec::createSpec<int64_t>("li_size", {1}),
                     llvm::TensorSpec::createSpec<int64_t>("stage", {1}),
                     llvm::TensorSpec::createSpec<float>("weight", {1})});
  return Made;
}

} // namespace mlbridge::regalloc
