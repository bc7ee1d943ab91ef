// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Which live range is allocated next.
#include "priority.h"

#include "advice/flags.h"

#include "llvm/CodeGen/MachineFunction.h"

using namespace llvm;

namespace mlbridge::regalloc {

namespace {

const advice::QuestionFlags
    PriorityOptions("regalloc-priority",
                    "The model that decides which live range is allocated next", "O1,O2,O3,Os,Oz");

const llvm::TensorSpec Priority = llvm::TensorSpec::createSpec<float>("priority", {1});

/// Answers a number that fits the allocator's unsigned one.
class PriorityRunner final : public CheckedRunner {
public:
  using CheckedRunner::CheckedRunner;

  static std::vector<llvm::TensorSpec> more() { return {}; }

private:
  void *evaluateUntyped() override {
    Answer = Of->evaluate<float>();
    Refused = Status();
    if (!(Answer >= 0 && Answer < 4294967296.0f)) // nor NaN
      Refused = Status(Code::PolicyFailed, "priority is " + std::to_string(Answer) +
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
                  Question &Asked, const PriorityRunner &Runner,
                  std::unique_ptr<RegAllocPriorityAdvisor> Learned)
      : RegAllocPriorityAdvisor(MF, RA, &Slots), MF(MF), Asked(Asked), Runner(Runner),
        Default(MF, RA, &Slots), Learned(std::move(Learned)) {}

private:
  unsigned getPriority(const LiveInterval &Range) const override {
    if (!Asked.failed()) {
      const unsigned Its = Learned->getPriority(Range);
      if (Runner.status())
        return Its;
      Asked.note(MF, Runner.status());
    }
    return static_cast<const RegAllocPriorityAdvisor &>(Default).getPriority(Range);
  }

  const MachineFunction &MF;
  Question &Asked;
  const PriorityRunner &Runner;
  const DefaultPriorityAdvisor Default;
  const std::unique_ptr<RegAllocPriorityAdvisor> Learned;
};

class PriorityProvider final : public RegAllocPriorityAdvisorProvider {
public:
  explicit PriorityProvider(Module &M)
      : RegAllocPriorityAdvisorProvider(AdvisorMode::Release),
        Asked(PriorityOptions.questionSettings(), M), Learned(Asked, learnedPriority, Priority) {}

private:
  std::unique_ptr<RegAllocPriorityAdvisor> getAdvisor(const MachineFunction &MF, const RAGreedy &RA,
                                                      SlotIndexes &Slots) override {
    if (auto Its = Learned.getAdvisor(MF, RA, Slots))
      return std::make_unique<PriorityAdvisor>(MF, RA, Slots, Asked, Learned.runner(),
                                               std::move(Its));
    return std::make_unique<DefaultPriorityAdvisor>(MF, RA, &Slots);
  }

  Question Asked;
  LearnedAdvisors<RegAllocPriorityAdvisorProvider, PriorityRunner> Learned;
};

} // namespace

bool priorityIsAsked() { return PriorityOptions.given(); }

std::string priorityModel() { return PriorityOptions.settings().Model; }

std::unique_ptr<RegAllocPriorityAdvisorProvider> newPriorityProvider(Module &M) {
  return std::make_unique<PriorityProvider>(M);
}

} // namespace mlbridge::regalloc
