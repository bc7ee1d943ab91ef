// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Which live range gives up its register.
#include "eviction.h"

#include "llvm/CodeGen/LiveInterval.h"
#include "llvm/CodeGen/MachineFunction.h"
#include "llvm/CodeGen/MachineRegisterInfo.h"
#include "llvm/CodeGen/RegisterClassInfo.h"

using namespace llvm;

namespace mlbridge::regalloc {

namespace {

const llvm::TensorSpec IndexToEvict = llvm::TensorSpec::createSpec<int64_t>("index_to_evict", {1});

/// Answers a position whose mask is 1. There is one whenever it is asked.
class EvictionRunner final : public CheckedRunner {
public:
  EvictionRunner(LLVMContext &Context, const std::vector<llvm::TensorSpec> &Features,
                 std::unique_ptr<LLVMModelRunner> Its)
      : CheckedRunner(Context, Features, std::move(Its)) {
    const auto *At =
        find_if(Features, [](const llvm::TensorSpec &F) { return F.name() == "mask"; }).base();
    Mask = ArrayRef(getTensor<int64_t>(At - Features.data()), At->getElementCount());
  }

  /// How many registers LLVM's advisor has room for; the last position is the live range itself.
  size_t registers() const { return Mask.size() - 1; }

private:
  void *evaluateUntyped() override {
    Index = Of->evaluate<int64_t>();
    Refused = Status();
    if (Of->status() && (Index < 0 || Index >= int64_t(Mask.size())))
      Refused =
          Status(Code::PolicyFailed, "index_to_evict is " + std::to_string(Index) +
                                         "; expected 0 to " + std::to_string(Mask.size() - 1));
    else if (Of->status() && Mask[Index] != 1)
      Refused = Status(Code::PolicyFailed,
                       "index_to_evict is " + std::to_string(Index) + ", whose mask is 0");
    if (!status())
      Index = find(Mask, 1) - Mask.begin();
    return &Index;
  }

  ArrayRef<int64_t> Mask;
  int64_t Index = 0;
};

class EvictionAdvisor final : public RegAllocEvictionAdvisor {
public:
  EvictionAdvisor(const MachineFunction &MF, const RAGreedy &RA, Question &Asked,
                  const EvictionRunner &Runner, std::unique_ptr<RegAllocEvictionAdvisor> Learned)
      : RegAllocEvictionAdvisor(MF, RA), Asked(Asked), Runner(Runner), Default(MF, RA),
        Learned(std::move(Learned)) {}

private:
  MCRegister tryFindEvictionCandidate(const LiveInterval &Range, const AllocationOrder &Order,
                                      uint8_t CostPerUseLimit,
                                      const SmallVirtRegSet &Fixed) const override {
    // LLVM's learned advisor writes past its arrays if there are more.
    const size_t Registers = RegClassInfo.getOrder(MRI->getRegClass(Range.reg())).size();
    if (!Asked.failed() && Registers <= Runner.registers()) {
      const MCRegister Freed =
          Learned->tryFindEvictionCandidate(Range, Order, CostPerUseLimit, Fixed);
      if (Runner.status())
        return Freed;
      Asked.note(MF, Runner.status());
    }
    return stock().tryFindEvictionCandidate(Range, Order, CostPerUseLimit, Fixed);
  }

  // LLVM's learned advisor leaves this to the default one, too.
  bool canEvictHintInterference(const LiveInterval &Range, MCRegister Hint,
                                const SmallVirtRegSet &Fixed) const override {
    return stock().canEvictHintInterference(Range, Hint, Fixed);
  }

  const RegAllocEvictionAdvisor &stock() const { return Default; }

  Question &Asked;
  const EvictionRunner &Runner;
  const DefaultEvictionAdvisor Default;
  const std::unique_ptr<RegAllocEvictionAdvisor> Learned;
};

class EvictionProvider final : public RegAllocEvictionAdvisorProvider {
public:
  EvictionProvider(advice::Settings Options, Module &M)
      : RegAllocEvictionAdvisorProvider(AdvisorMode::Release, M.getContext()),
        Asked(std::move(Options), M), Learned(Asked, learnedEviction, IndexToEvict) {}

private:
#if LLVM_VERSION_MAJOR >= 22
  std::unique_ptr<RegAllocEvictionAdvisor> getAdvisor(const MachineFunction &MF, const RAGreedy &RA,
                                                      MachineBlockFrequencyInfo *MBFI,
                                                      MachineLoopInfo *Loops) override {
    return advisor(MF, RA, MBFI, Loops);
  }
#else
  std::unique_ptr<RegAllocEvictionAdvisor> getAdvisor(const MachineFunction &MF, const RAGreedy &RA,
                                                      AnalysisResolver &Passes) override {
    return advisor(MF, RA, Passes);
  }
#endif

  template <typename... Analyses>
  std::unique_ptr<RegAllocEvictionAdvisor> advisor(const MachineFunction &MF, const RAGreedy &RA,
                                                   Analyses &...Its) {
    if (auto Learning = Learned.getAdvisor(MF, RA, Its...))
      return std::make_unique<EvictionAdvisor>(MF, RA, Asked, Learned.runner(),
                                               std::move(Learning));
    return std::make_unique<DefaultEvictionAdvisor>(MF, RA);
  }

  Question Asked;
  LearnedAdvisors<RegAllocEvictionAdvisorProvider, EvictionRunner> Learned;
};

} // namespace

std::unique_ptr<RegAllocEvictionAdvisorProvider> newEvictionProvider(advice::Settings Options,
                                                                     Module &M) {
  return std::make_unique<EvictionProvider>(std::move(Options), M);
}

} // namespace mlbridge::regalloc
