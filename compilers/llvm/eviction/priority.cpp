// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The choice of the live range that is allocated next.
#include "eviction.h"
#include "optimization.h"
#include "plugin/flags.h"

#include "llvm/CodeGen/RegAllocPriorityAdvisor.h"

using namespace llvm;

namespace mlbridge::eviction {

namespace {

const plugin::AdvisorFlags
    PriorityOptions("regalloc-priority",
                    "The model that decides which live range is allocated next", "O1,O2,O3,Os,Oz");

const llvm::TensorSpec PriorityAdvice = llvm::TensorSpec::createSpec<float>("priority", {1});

/// Answers a number that fits the allocator's unsigned one.
class PriorityRunner final : public CheckedRunner {
public:
  using CheckedRunner::CheckedRunner;

  static std::vector<llvm::TensorSpec> more() { return {}; }

private:
  void *evaluateUntyped() override {
    Answer = Runner->evaluate<float>();
    Refusal = Status();
    if (!(Answer >= 0 && Answer < 4294967296.0f)) // nor NaN
      Refusal = Status(Code::PolicyFailed, "priority is " + std::to_string(Answer) +
                                               "; expected 0 or more, less than 2^32");
    if (!status())
      Answer = 0;
    return &Answer;
  }

  float Answer = 0;
};

class PriorityAdvisor final : public RegAllocPriorityAdvisor {
public:
  PriorityAdvisor(const MachineFunction &MF, const RAGreedy &RA, SlotIndexes &Slots,
                  Optimization &Owner, const PriorityRunner &Runner,
                  std::unique_ptr<RegAllocPriorityAdvisor> Learned)
      : RegAllocPriorityAdvisor(MF, RA, &Slots), MF(MF), Owner(Owner), Runner(Runner),
        Stock(MF, RA, &Slots), Learned(std::move(Learned)) {}

private:
  unsigned getPriority(const LiveInterval &Range) const override {
    if (!Owner.hasFailed()) {
      const unsigned Priority = Learned->getPriority(Range);
      if (Runner.status())
        return Priority;
      Owner.note(MF, Runner.status());
    }
    return static_cast<const RegAllocPriorityAdvisor &>(Stock).getPriority(Range);
  }

  const MachineFunction &MF;
  Optimization &Owner;
  const PriorityRunner &Runner;
  const DefaultPriorityAdvisor Stock;
  const std::unique_ptr<RegAllocPriorityAdvisor> Learned;
};

class PriorityProvider final : public RegAllocPriorityAdvisorProvider {
public:
  explicit PriorityProvider(Module &M)
      : RegAllocPriorityAdvisorProvider(AdvisorMode::Release),
        Owner(PriorityOptions.advisorSettings(), M),
        Learned(Owner, learnedPriority, PriorityAdvice) {}

private:
  std::unique_ptr<RegAllocPriorityAdvisor> getAdvisor(const MachineFunction &MF, const RAGreedy &RA,
                                                      SlotIndexes &Slots) override {
    if (auto Advisor = Learned.getAdvisor(MF, RA, Slots))
      return std::make_unique<PriorityAdvisor>(MF, RA, Slots, Owner, Learned.runner(),
                                               std::move(Advisor));
    return std::make_unique<DefaultPriorityAdvisor>(MF, RA, &Slots);
  }

  Optimization Owner;
  LearnedAdvisors<RegAllocPriorityAdvisorProvider, PriorityRunner> Learned;
};

} // namespace

std::string priorityModel() { return PriorityOptions.advisorSettings().Model; }

std::unique_ptr<RegAllocPriorityAdvisorProvider> newPriorityProvider(Module &M) {
  return std::make_unique<PriorityProvider>(M);
}

} // namespace mlbridge::eviction
