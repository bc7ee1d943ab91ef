// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The choice of the live range that gives up its register.
#include "eviction.h"

#include "comparison.h"
#include "optimization.h"
#include "plugin/flags.h"
#include "trials/trial_process.h"

#include "llvm/CodeGen/LiveInterval.h"
#include "llvm/CodeGen/MachineBlockFrequencyInfo.h"
#include "llvm/CodeGen/MachineFunction.h"
#include "llvm/CodeGen/MachineRegisterInfo.h"
#include "llvm/CodeGen/RegisterClassInfo.h"
#include "llvm/CodeGen/TargetRegisterInfo.h"

using namespace llvm;

namespace mlbridge::eviction {

namespace {

const plugin::AdvisorFlags EvictionOptions("regalloc-eviction",
                                           "The model that decides which live range is evicted",
                                           "O1,O2,O3,Os,Oz");
const plugin::Flag
    EffortOption("regalloc-eviction", "effort", "0", "N",
                 "How many other allocations of a function than LLVM's are tried; the one with the "
                 "least spills, reloads and copies is kept. 0: the model is believed");

/// The number of allocations that are tried; InvalidArgument if that can't be.
Expected<unsigned> effort(const std::string &Model, const std::string &OtherModel) {
  SmallVector<StringRef, 2> Models = {Model};
  if (!OtherModel.empty())
    Models.push_back(OtherModel);
  return trial::effortOf(EffortOption.name(), EffortOption.value(), Models);
}

const llvm::TensorSpec IndexToEvict = llvm::TensorSpec::createSpec<int64_t>("index_to_evict", {1});

/// Answers a position whose mask is 1. There is one whenever it is asked.
class EvictionRunner final : public CheckedRunner {
public:
  EvictionRunner(LLVMContext &Context, const std::vector<llvm::TensorSpec> &Features,
                 std::unique_ptr<LLVMModelRunner> Runner)
      : CheckedRunner(Context, Features, std::move(Runner)) {
    const auto *MaskSpec =
        find_if(Features, [](const llvm::TensorSpec &F) { return F.name() == "mask"; }).base();
    Mask = ArrayRef(getTensor<int64_t>(MaskSpec - Features.data()), MaskSpec->getElementCount());
    Default = getTensor<int64_t>(Features.size() - 2);
    Hottest = getTensor<float>(Features.size() - 1);
  }

  /// The features that are offered besides LLVM's.
  static std::vector<llvm::TensorSpec> more() {
    return {llvm::TensorSpec::createSpec<int64_t>("eviction_default", {1}),
            llvm::TensorSpec::createSpec<float>("function_hottest_bb_freq", {1})};
  }

  /// The number of registers for which LLVM's advisor has room; the last position is the live range
  /// itself.
  size_t registers() const { return Mask.size() - 1; }
  /// Says what LLVM's heuristic would evict.
  void setDefault(size_t Position) { *Default = Position; }
  /// Says how often the function's hottest block is executed for each call.
  void setHottest(float Frequency) { *Hottest = Frequency; }

private:
  void *evaluateUntyped() override {
    Index = Runner->evaluate<int64_t>();
    Refusal = Status();
    if (Runner->status() && (Index < 0 || Index >= int64_t(Mask.size())))
      Refusal =
          Status(Code::PolicyFailed, "index_to_evict is " + std::to_string(Index) +
                                         "; expected 0 to " + std::to_string(Mask.size() - 1));
    else if (Runner->status() && Mask[Index] != 1)
      Refusal = Status(Code::PolicyFailed,
                       "index_to_evict is " + std::to_string(Index) + ", whose mask is 0");
    if (!status())
      Index = find(Mask, 1) - Mask.begin();
    return &Index;
  }

  ArrayRef<int64_t> Mask;
  int64_t *Default = nullptr;
  float *Hottest = nullptr;
  int64_t Index = 0;
};

float hottest(const MachineFunction &MF, const MachineBlockFrequencyInfo &Frequencies) {
  float Highest = 0;
  for (const MachineBasicBlock &Block : MF)
    Highest = std::max(Highest, float(Frequencies.getBlockFreqRelativeToEntryBlock(&Block)));
  return Highest;
}

class EvictionAdvisor final : public RegAllocEvictionAdvisor {
public:
  EvictionAdvisor(const MachineFunction &MF, const RAGreedy &RA, Optimization &Owner,
                  EvictionRunner &Runner, const MachineBlockFrequencyInfo &Frequencies,
                  unsigned Effort, std::unique_ptr<RegAllocEvictionAdvisor> Learned)
      : RegAllocEvictionAdvisor(MF, RA), Owner(Owner), Runner(Runner), Stock(MF, RA),
        Learned(std::move(Learned)) {
    Runner.setHottest(hottest(MF, Frequencies));
    if (Effort)
      Comparing.emplace(MF, *VRM, Frequencies, Effort);
  }
  ~EvictionAdvisor() override { trial::mustNotBeTrial(); }

private:
  MCRegister tryFindEvictionCandidate(const LiveInterval &Range, const AllocationOrder &Order,
                                      uint8_t CostPerUseLimit,
                                      const SmallVirtRegSet &Fixed) const override {
    const MCRegister Usual = stock().tryFindEvictionCandidate(Range, Order, CostPerUseLimit, Fixed);
    // LLVM's learned advisor writes past its arrays if there are more.
    const size_t Registers = RegClassInfo.getOrder(MRI->getRegClass(Range.reg())).size();
    if (Owner.hasFailed() || Registers > Runner.registers() || (Comparing && !Comparing->asks()))
      return Usual;
    Runner.setDefault(position(Range, Usual));
    const MCRegister Chosen =
        Learned->tryFindEvictionCandidate(Range, Order, CostPerUseLimit, Fixed);
    if (!Runner.status()) {
      Owner.note(MF, Runner.status());
      return Usual;
    }
    if (!Comparing || Chosen == Usual)
      return Chosen;
    const Expected<bool> TakesModel = Comparing->takesModel();
    if (!TakesModel)
      Owner.note(MF, TakesModel.status());
    return TakesModel && *TakesModel ? Chosen : Usual;
  }

  // LLVM's learned advisor leaves this to the default one, too.
  bool canEvictHintInterference(const LiveInterval &Range, MCRegister Hint,
                                const SmallVirtRegSet &Fixed) const override {
    return stock().canEvictHintInterference(Range, Hint, Fixed);
  }

  /// The position of a register in the order of allocation, whose class is in no header: the
  /// registers that the range prefers, then the others of its class.
  size_t position(const LiveInterval &Range, MCRegister Freed) const {
    if (!Freed)
      return Runner.registers();
    const ArrayRef<MCPhysReg> Class = RegClassInfo.getOrder(MRI->getRegClass(Range.reg()));
    SmallVector<MCPhysReg, 16> Order;
    TRI->getRegAllocationHints(Range.reg(), Class, Order, MF, VRM, Matrix);
    const size_t Preferred = Order.size();
    copy_if(Class, std::back_inserter(Order), [&](MCPhysReg Register) {
      return !is_contained(ArrayRef(Order).take_front(Preferred), Register);
    });
    return std::min<size_t>(find(Order, Freed.id()) - Order.begin(), Runner.registers());
  }

  const RegAllocEvictionAdvisor &stock() const { return Stock; }

  Optimization &Owner;
  EvictionRunner &Runner;
  const DefaultEvictionAdvisor Stock;
  const std::unique_ptr<RegAllocEvictionAdvisor> Learned;
  mutable std::optional<Comparison> Comparing;
};

class EvictionProvider final : public RegAllocEvictionAdvisorProvider {
public:
  EvictionProvider(Module &M, const std::string &OtherModel)
      : RegAllocEvictionAdvisorProvider(AdvisorMode::Release, M.getContext()),
        Owner(EvictionOptions.advisorSettings(), M), Learned(Owner, learnedEviction, IndexToEvict),
        Effort(effort(Owner.Options.Model, OtherModel)) {
    if (!Effort)
      Owner.refuse(Effort.status());
  }

private:
#if LLVM_VERSION_MAJOR >= 22
  std::unique_ptr<RegAllocEvictionAdvisor> getAdvisor(const MachineFunction &MF, const RAGreedy &RA,
                                                      MachineBlockFrequencyInfo *MBFI,
                                                      MachineLoopInfo *Loops) override {
    return advisor(MF, RA, *MBFI, MBFI, Loops);
  }
#else
  std::unique_ptr<RegAllocEvictionAdvisor> getAdvisor(const MachineFunction &MF, const RAGreedy &RA,
                                                      AnalysisResolver &Passes) override {
    return advisor(MF, RA, frequencies(Passes), Passes);
  }

  static const MachineBlockFrequencyInfo &frequencies(const AnalysisResolver &Passes) {
    Pass *Analysis = Passes.getAnalysisIfAvailable(&MachineBlockFrequencyInfoWrapperPass::ID);
    return static_cast<MachineBlockFrequencyInfoWrapperPass *>(Analysis)->getMBFI();
  }
#endif

  template <typename... Analyses>
  std::unique_ptr<RegAllocEvictionAdvisor> advisor(const MachineFunction &MF, const RAGreedy &RA,
                                                   const MachineBlockFrequencyInfo &Frequencies,
                                                   Analyses &...Others) {
    if (auto Advisor = Learned.getAdvisor(MF, RA, Others...))
      return std::make_unique<EvictionAdvisor>(MF, RA, Owner, Learned.runner(), Frequencies,
                                               *Effort, std::move(Advisor));
    return std::make_unique<DefaultEvictionAdvisor>(MF, RA);
  }

  Optimization Owner;
  LearnedAdvisors<RegAllocEvictionAdvisorProvider, EvictionRunner> Learned;
  const Expected<unsigned> Effort;
};

} // namespace

bool hasEvictionModel() { return EvictionOptions.given(); }

std::unique_ptr<RegAllocEvictionAdvisorProvider>
newEvictionProvider(Module &M, const std::string &OtherModel) {
  return std::make_unique<EvictionProvider>(M, OtherModel);
}

} // namespace mlbridge::eviction
