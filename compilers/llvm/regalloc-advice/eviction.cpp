// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Which live range gives up its register.
#include "eviction.h"

#include "comparison.h"

#include "advice/flags.h"
#include "trials/trial_process.h"

#include "llvm/CodeGen/LiveInterval.h"
#include "llvm/CodeGen/MachineBlockFrequencyInfo.h"
#include "llvm/CodeGen/MachineFunction.h"
#include "llvm/CodeGen/MachineRegisterInfo.h"
#include "llvm/CodeGen/RegisterClassInfo.h"
#include "llvm/CodeGen/TargetRegisterInfo.h"

using namespace llvm;

namespace mlbridge::regalloc {

namespace {

class EvictionFlags final : public advice::QuestionFlags {
public:
  EvictionFlags()
      : QuestionFlags("regalloc-eviction", "The model that decides which live range is evicted",
                      "O1,O2,O3,Os,Oz"),
        Effort("regalloc-eviction-effort", cl::init("0"), cl::value_desc("N"),
               cl::desc("How many other allocations of a function than LLVM's are tried; the one "
                        "with the least spills, reloads and copies is kept. 0: the model is "
                        "believed")) {}

  /// How many are tried; InvalidArgument if that can't be. `OtherModel` is asked, too.
  Expected<unsigned> effort(const std::string &OtherModel) const;

private:
  cl::opt<std::string> Effort;
};
const EvictionFlags EvictionOptions;

Expected<unsigned> EvictionFlags::effort(const std::string &OtherModel) const {
  const std::string Model = questionSettings().Model;
  SmallVector<StringRef, 2> Models = {Model};
  if (!OtherModel.empty())
    Models.push_back(OtherModel);
  return trial::effortOf(Effort.ArgStr, value(Effort), Models);
}

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
    Default = getTensor<int64_t>(Features.size() - 2);
    Hottest = getTensor<float>(Features.size() - 1);
  }

  /// What is offered besides LLVM's features.
  static std::vector<llvm::TensorSpec> more() {
    return {llvm::TensorSpec::createSpec<int64_t>("eviction_default", {1}),
            llvm::TensorSpec::createSpec<float>("function_hottest_bb_freq", {1})};
  }

  /// How many registers LLVM's advisor has room for; the last position is the live range itself.
  size_t registers() const { return Mask.size() - 1; }
  /// Says what LLVM's heuristic would evict.
  void setDefault(size_t Position) { *Default = Position; }
  /// Says how often the function's hottest block is executed for each call.
  void setHottest(float Frequency) { *Hottest = Frequency; }

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
  int64_t *Default = nullptr;
  float *Hottest = nullptr;
  int64_t Index = 0;
};

float hottest(const MachineFunction &MF, const MachineBlockFrequencyInfo &Frequencies) {
  float Most = 0;
  for (const MachineBasicBlock &Block : MF)
    Most = std::max(Most, float(Frequencies.getBlockFreqRelativeToEntryBlock(&Block)));
  return Most;
}

class EvictionAdvisor final : public RegAllocEvictionAdvisor {
public:
  EvictionAdvisor(const MachineFunction &MF, const RAGreedy &RA, Question &Asked,
                  EvictionRunner &Runner, const MachineBlockFrequencyInfo &Frequencies,
                  unsigned Effort, std::unique_ptr<RegAllocEvictionAdvisor> Learned)
      : RegAllocEvictionAdvisor(MF, RA), Asked(Asked), Runner(Runner), Default(MF, RA),
        Learned(std::move(Learned)) {
    Runner.setHottest(hottest(MF, Frequencies));
    if (Effort)
      Compared.emplace(MF, *VRM, Frequencies, Effort);
  }
  ~EvictionAdvisor() override { trial::mustNotBeTrial(); }

private:
  MCRegister tryFindEvictionCandidate(const LiveInterval &Range, const AllocationOrder &Order,
                                      uint8_t CostPerUseLimit,
                                      const SmallVirtRegSet &Fixed) const override {
    const MCRegister Usual = stock().tryFindEvictionCandidate(Range, Order, CostPerUseLimit, Fixed);
    // LLVM's learned advisor writes past its arrays if there are more.
    const size_t Registers = RegClassInfo.getOrder(MRI->getRegClass(Range.reg())).size();
    if (Asked.failed() || Registers > Runner.registers() || (Compared && !Compared->asks()))
      return Usual;
    Runner.setDefault(position(Range, Usual));
    const MCRegister Its = Learned->tryFindEvictionCandidate(Range, Order, CostPerUseLimit, Fixed);
    if (!Runner.status()) {
      Asked.note(MF, Runner.status());
      return Usual;
    }
    if (!Compared || Its == Usual)
      return Its;
    const Expected<bool> Better = Compared->takesModel();
    if (!Better)
      Asked.note(MF, Better.status());
    return Better && *Better ? Its : Usual;
  }

  // LLVM's learned advisor leaves this to the default one, too.
  bool canEvictHintInterference(const LiveInterval &Range, MCRegister Hint,
                                const SmallVirtRegSet &Fixed) const override {
    return stock().canEvictHintInterference(Range, Hint, Fixed);
  }

  /// In the order of allocation, whose class is in no header: the registers that the range prefers,
  /// then the others of its class.
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

  const RegAllocEvictionAdvisor &stock() const { return Default; }

  Question &Asked;
  EvictionRunner &Runner;
  const DefaultEvictionAdvisor Default;
  const std::unique_ptr<RegAllocEvictionAdvisor> Learned;
  mutable std::optional<Comparison> Compared;
};

class EvictionProvider final : public RegAllocEvictionAdvisorProvider {
public:
  EvictionProvider(Module &M, const std::string &OtherModel)
      : RegAllocEvictionAdvisorProvider(AdvisorMode::Release, M.getContext()),
        Asked(EvictionOptions.questionSettings(), M), Learned(Asked, learnedEviction, IndexToEvict),
        Effort(EvictionOptions.effort(OtherModel)) {
    if (!Effort)
      Asked.refuse(Effort.status());
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
    Pass *Its = Passes.getAnalysisIfAvailable(&MachineBlockFrequencyInfoWrapperPass::ID);
    return static_cast<MachineBlockFrequencyInfoWrapperPass *>(Its)->getMBFI();
  }
#endif

  template <typename... Analyses>
  std::unique_ptr<RegAllocEvictionAdvisor> advisor(const MachineFunction &MF, const RAGreedy &RA,
                                                   const MachineBlockFrequencyInfo &Frequencies,
                                                   Analyses &...Its) {
    if (auto Learning = Learned.getAdvisor(MF, RA, Its...))
      return std::make_unique<EvictionAdvisor>(MF, RA, Asked, Learned.runner(), Frequencies,
                                               *Effort, std::move(Learning));
    return std::make_unique<DefaultEvictionAdvisor>(MF, RA);
  }

  Question Asked;
  LearnedAdvisors<RegAllocEvictionAdvisorProvider, EvictionRunner> Learned;
  const Expected<unsigned> Effort;
};

} // namespace

bool evictionIsAsked() { return EvictionOptions.given(); }

std::unique_ptr<RegAllocEvictionAdvisorProvider>
newEvictionProvider(Module &M, const std::string &OtherModel) {
  return std::make_unique<EvictionProvider>(M, OtherModel);
}

} // namespace mlbridge::regalloc
