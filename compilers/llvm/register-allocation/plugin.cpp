// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A register allocator for stock clang-22 and llc-22 whose decisions models make.
//   llc-22 -load mlbridge-register-allocation.so -register-allocation-model=URIS
//   llc-22 -load mlbridge-register-allocation.so -regalloc=mlbridge
//   clang-22 -O2 -Xclang -fpass-plugin=mlbridge-register-allocation.so -Xclang -mllvm
//     -Xclang -register-allocation-model=URIS
#include "advice/flags.h"
#include "agents.h"
#include "asked_vocabulary.h"
#include "asm_goto.h"
#include "environment.h"
#include "mir_triplets.h"
#include "trials/allocation_trials.h"
#include "trials/trial_process.h"
#include "versions/pass_plugin.h"

#include <mlbridge/uri.h>

#include "llvm/CodeGen/Passes.h"
#include "llvm/CodeGen/RegAllocRegistry.h"
#include "llvm/CodeGen/TargetPassConfig.h"
#include "llvm/IR/LegacyPassManager.h"
#include "llvm/Target/RegisterTargetPassConfigCallback.h"
#include "llvm/Target/TargetMachine.h"

using namespace llvm;

// The registry is LLVM's: declared here, so that the plugin has no hidden copy of it.
template <>
MachinePassRegistry<FunctionPass *(*)()> llvm::RegisterRegAllocBase<RegisterRegAlloc>::Registry;

namespace mlbridge::allocation {

namespace {

class AllocationFlags final : public advice::Flags {
public:
  AllocationFlags()
      : Flags("register-allocation",
              "The models that allocate registers: one URI, or AGENT=URI;...", "O1,O2,O3,Os,Oz"),
        Effort("register-allocation-effort", cl::init("0"), cl::value_desc("N"),
               cl::desc("More than 0: of the models' allocation of a function and the greedy "
                        "allocator's, that with the least spills, reloads and copies is kept")),
        Vocabulary("register-allocation-vocabulary", cl::value_desc("FILE"),
                   cl::desc("The vocabulary for embeddings instead of the built-in one")),
        Triplets("register-allocation-triplets", cl::value_desc("FILE"),
                 cl::desc("Write what stands beside what in the machine code of all functions "
                          "before registers are allocated")) {}

  std::string vocabulary() const { return value(Vocabulary); }
  std::string triplets() const { return Triplets; }

  /// Whether allocations are compared, if that is not 0; InvalidArgument if they can't be.
  Expected<unsigned> effort(StringRef Uris) const {
    SmallVector<StringRef, 4> Models;
    for (StringRef Part : split(Uris, ';')) {
      const size_t Named = Part.find_first_of("=:");
      if (!Part.trim().empty())
        Models.push_back(Part.substr(Part.substr(Named, 1) == "=" ? Named + 1 : 0).trim());
    }
    return trial::effortOf(Effort.ArgStr, value(Effort), Models);
  }
  bool compares() const {
    const Expected<unsigned> Its = effort("");
    return Its && *Its;
  }

private:
  cl::opt<std::string> Effort, Vocabulary, Triplets;
};
const AllocationFlags Flags;

/// What one module is compiled with.
struct Choice {
  advice::Settings Options = Flags.settings();
  bool Failed = false; ///< the options make no sense, as a diagnostic has said
  bool Compares = false;

  Choice() {
    if (!Flags.given())
      Options.Model = "function:heuristic"; // -regalloc=mlbridge
  }

  void check(LLVMContext &Context) {
    const Expected<unsigned> Effort = Flags.effort(Options.Model);
    Status Right = Options.check();
    if (Right)
      Right = Effort.status();
    if (!Right)
      advice::refuse(Options, Context, Right);
    Failed = !Right;
    Compares = Effort && *Effort;
  }
};

/// Says that all functions of a module are left to LLVM, and why. Changes nothing.
class LeftAlone final : public ModulePass {
public:
  static char ID;
  LeftAlone(CodeGenOptLevel Level, std::string Why)
      : ModulePass(ID), Level(Level), Why(std::move(Why)) {}

private:
  StringRef getPassName() const override { return "No register allocation by models"; }
  void getAnalysisUsage(AnalysisUsage &Usage) const override { Usage.setPreservesAll(); }

  bool runOnModule(Module &M) override {
    Choice Its;
    Its.check(M.getContext());
    if (Its.Failed)
      return false;
    const auto First = find_if(
        M, [&](const Function &F) { return !F.isDeclaration() && Its.Options.wants(F, Level); });
    if (First == M.end())
      return false;
    OptimizationRemarkMissed Remark("register-allocation", "Left", &*First);
    Remark << "the module is left to LLVM's own allocator: " << Why;
    M.getContext().diagnose(Remark);
    return false;
  }

  const CodeGenOptLevel Level;
  const std::string Why;
};

char LeftAlone::ID = 0;

/// Gives every live range a register or a place on the stack, so that the greedy allocator, which
/// follows, finds nothing to do; or gives none, so that it does all.
class RegisterAllocation : public MachineFunctionPass {
public:
  static char ID;
  /// Whether LLVM's basic allocator is to take the function that this pass has left.
  static thread_local bool UsesBasic;
  explicit RegisterAllocation(char &Which = ID) : MachineFunctionPass(Which) {}

private:
  StringRef getPassName() const override { return "Register allocation by models"; }

  MachineFunctionProperties getRequiredProperties() const override {
    return MachineFunctionProperties().setNoPHIs();
  }

  void getAnalysisUsage(AnalysisUsage &Usage) const override {
    Usage.setPreservesCFG();
    Usage.addRequired<LiveIntervalsWrapperPass>();
    Usage.addPreserved<LiveIntervalsWrapperPass>();
    Usage.addPreserved<SlotIndexesWrapperPass>();
    Usage.addRequired<LiveDebugVariablesWrapperLegacy>();
    Usage.addPreserved<LiveDebugVariablesWrapperLegacy>();
    Usage.addRequired<LiveStacksWrapperLegacy>();
    Usage.addPreserved<LiveStacksWrapperLegacy>();
    Usage.addRequired<MachineBlockFrequencyInfoWrapperPass>();
    Usage.addPreserved<MachineBlockFrequencyInfoWrapperPass>();
    Usage.addRequired<EdgeBundlesWrapperLegacy>();
    Usage.addRequired<MachineDominatorTreeWrapperPass>();
    Usage.addPreserved<MachineDominatorTreeWrapperPass>();
    Usage.addRequired<MachineLoopInfoWrapperPass>();
    Usage.addPreserved<MachineLoopInfoWrapperPass>();
    Usage.addRequired<VirtRegMapWrapperLegacy>();
    Usage.addPreserved<VirtRegMapWrapperLegacy>();
    Usage.addRequired<LiveRegMatrixWrapperLegacy>();
    Usage.addPreserved<LiveRegMatrixWrapperLegacy>();
    Usage.addRequired<MachineOptimizationRemarkEmitterPass>();
    MachineFunctionPass::getAnalysisUsage(Usage);
  }

  bool doInitialization(Module &M) override {
    Choice Its;
    Its.check(M.getContext());
    Options = Its.Options;
    Failed = Its.Failed;
    Compares = Its.Compares;
    return false;
  }

  bool doFinalization(Module &) override {
    trial::mustNotBeTrial();
    return false;
  }

  bool runOnMachineFunction(MachineFunction &MF) override {
    trial::mustNotBeTrial();
    UsesBasic = false;
    const Function &F = MF.getFunction();
    if (Failed || !Options.wants(F, MF.getTarget().getOptLevel()) || !hasRanges(MF))
      return false;
    auto &Remarks = getAnalysis<MachineOptimizationRemarkEmitterPass>().getORE();
    const auto Leave = [&](StringRef Why) {
      Remarks.emit([&] {
        return MachineOptimizationRemarkMissed("register-allocation", "Left", F.getSubprogram(),
                                               &MF.front())
               << (F.getName() + " is left to the " + (UsesBasic ? "basic" : "greedy") +
                   " allocator: " + Why)
                      .str();
      });
    };
    if (hasAsmGotoOutputs(MF)) { // also not to the basic allocator
      Leave("an asm goto gives values, which LLVM doesn't spill rightly");
      return false;
    }
    VirtRegMap &Map = getAnalysis<VirtRegMapWrapperLegacy>().getVRM();
    MachineBlockFrequencyInfo &Frequencies =
        getAnalysis<MachineBlockFrequencyInfoWrapperPass>().getMBFI();
    Allocation Its(MF, {getAnalysis<LiveIntervalsWrapperPass>().getLIS(), Map,
                        getAnalysis<LiveRegMatrixWrapperLegacy>().getLRM(),
                        getAnalysis<LiveStacksWrapperLegacy>().getLS(),
                        getAnalysis<LiveDebugVariablesWrapperLegacy>().getLDV(),
                        getAnalysis<MachineDominatorTreeWrapperPass>().getDomTree(),
                        getAnalysis<MachineLoopInfoWrapperPass>().getLI(), Frequencies,
                        getAnalysis<EdgeBundlesWrapperLegacy>().getEdgeBundles(), Remarks});
    Status Compared;
    bool IsCompared = !Compares;
    /// Whether this allocation costs less than the greedy allocator's. Also in processes that try:
    /// whether that is what they try.
    const auto IsBetter = [&](std::optional<trial::AllocationCost> Known) {
      IsCompared = true;
      std::optional<trial::AllocationCost> Costs[] = {Known, std::nullopt};
      const Expected<std::optional<size_t>> Tried =
          trial::tryAllocations(MF, Map, Frequencies, Costs);
      Compared = Tried.status();
      if (!Tried)
        return false;
      if (*Tried)
        return **Tried == 0;
      if (!Costs[0] || !Costs[1] || !Costs[0]->isBelow(*Costs[1]))
        return false;
      trial::reportAllocation("register-allocation", MF, *Costs[0], *Costs[1]);
      return true;
    };
    if (const std::string Why = Its.refusal(); !Why.empty()) {
      UsesBasic = Compares && IsBetter(std::nullopt);
      if (Compared)
        Leave(Why);
      else
        fail(MF, Compared);
      return false;
    }
    if (!Models)
      Models.emplace(open(F));
    std::optional<RangeEmbeddings> Vectors;
    if (Words)
      Vectors.emplace(MF, *Words);
    const auto WhyNot = [&](std::optional<trial::AllocationCost> Known) -> std::string {
      if (!IsBetter(Known))
        return "that does not cost more";
      Its.publish();
      return "";
    };
    std::function<std::string()> BeforeChanges;
    if (Compares) {
      BeforeChanges = [&] { return WhyNot(std::nullopt); };
      Its.hold();
    }
    AllocationEnvironment Environment(Its, Models->specs(), Vectors ? &*Vectors : nullptr,
                                      std::move(BeforeChanges));
    Its.begin();
    EpisodeOptions Episode;
    Episode.context = (F.getParent()->getSourceFileName() + ":" + F.getName()).str();
    const EpisodeResult Result = run(Environment, *Models, Episode);
    std::string Why = Environment.impossible();
    if (Result.status) {
      Its.finish();
      trial::endTrial(MF, Map, Frequencies);
      if (!IsCompared)
        Why = WhyNot(trial::costOf(MF, Map, Frequencies));
      if (Why.empty())
        return true;
    }
    Its.giveUp();
    if (!Compared)
      fail(MF, Compared);
    else if (!Why.empty())
      Leave(Why);
    else
      fail(MF, Result.status);
    return true;
  }

  static bool hasRanges(const MachineFunction &MF) {
    const MachineRegisterInfo &Registers = MF.getRegInfo();
    for (unsigned I = 0; I < Registers.getNumVirtRegs(); ++I)
      if (!Registers.reg_nodbg_empty(Register::index2VirtReg(I)))
        return true;
    return false;
  }

  void fail(const MachineFunction &MF, const Status &Why) {
    trial::endTrial(Why);
    Failed = true;
    advice::giveUp(Options, MF.getFunction().getContext(),
                   Status(Why.code(), MF.getName().str() + ": " + Why.message()));
  }

  Agents open(const Function &F) {
    OpenOptions Opening;
    Opening.deadline = *parseDuration(Options.Deadline); // check() has accepted it
    Opening.sharedBudget = true;
    Opening.context = F.getParent()->getSourceFileName();
    return Agents::open(
        AllocationEnvironment::specs(), Options.Model, Opening,
        [this](size_t Agent, const Model &Policy) { return signatureFor(Agent, Policy); });
  }

  /// With embeddings, if the model asks for them.
  Expected<Signature> signatureFor(size_t Agent, const Model &Policy) {
    Signature Its = AllocationEnvironment::specs()[Agent].signature;
    if (!AllocationEnvironment::wantsEmbedding(Agent, Policy))
      return Its;
    if (const Status Read =
            embeddings::readFor(Policy, "register-allocation", Flags.vocabulary(), Words);
        !Read)
      return Read;
    Its.inputs.push_back(AllocationEnvironment::embeddingFor(Agent, Words->dimension()));
    return Its;
  }

  advice::Settings Options;
  std::optional<Agents> Models;
  std::optional<embeddings::MachineVocabulary> Words; ///< if a model asks for embeddings
  bool Failed = false;
  bool Compares = false;
};

char RegisterAllocation::ID = 0;
thread_local bool RegisterAllocation::UsesBasic = false;

/// What -regalloc=mlbridge names, with the greedy allocator behind it.
class NamedAllocation final : public RegisterAllocation {
public:
  static char ID;
  NamedAllocation() : RegisterAllocation(ID) {}
};

char NamedAllocation::ID = 0;

/// Writes what vocabularies are trained on.
class TripletsPass final : public MachineFunctionPass {
public:
  static char ID;
  TripletsPass() : MachineFunctionPass(ID) {}

private:
  StringRef getPassName() const override { return "Triplets of machine code"; }
  void getAnalysisUsage(AnalysisUsage &Usage) const override {
    Usage.setPreservesAll();
    MachineFunctionPass::getAnalysisUsage(Usage);
  }

  bool runOnMachineFunction(MachineFunction &MF) override {
    Found.add(MF);
    return false;
  }
  bool doFinalization(Module &M) override {
    std::error_code Failed;
    raw_fd_ostream To(Flags.triplets(), Failed);
    if (!Failed) {
      Found.write(To);
      To.close();
      Failed = To.error();
      To.clear_error();
    }
    if (Failed)
      M.getContext().emitError("register-allocation: -register-allocation-triplets=" +
                               Flags.triplets() + ": " + Failed.message());
    return false;
  }

  embeddings::MachineTriplets Found;
};

char TripletsPass::ID = 0;

const RegisterRegAlloc Named("mlbridge", "allocation by models", []() -> FunctionPass * {
  // With a model, the other pass runs before.
  if (Flags.given())
    return createGreedyRegisterAllocator();
  return new NamedAllocation;
});

/// What the user says with -regalloc, or nothing.
StringRef otherAllocator() {
  using Constructor = RegisterRegAlloc::FunctionPassCtor;
  using Option = cl::opt<Constructor, false, RegisterPassParser<RegisterRegAlloc>>;
  const cl::Option *Its = cl::getRegisteredOptions().lookup("regalloc");
  if (!Its || !Its->getNumOccurrences())
    return "";
  const Constructor Wanted = static_cast<const Option *>(Its)->getValue();
  for (const RegisterRegAlloc *Known = RegisterRegAlloc::getList(); Known; Known = Known->getNext())
    if (Known->getCtor() == Wanted)
      return Known->getName();
  return "";
}

/// Why no function can be allocated by models; empty if some can.
std::string whyNone(const TargetMachine &Target) {
  if (std::string Why = Allocation::refusal(Target.getTargetTriple()); !Why.empty())
    return Why;
  if (!Flags.compares())
    return "";
  const StringRef Other = otherAllocator();
  if (Other.empty() || is_contained({"default", "greedy", "mlbridge"}, Other))
    return "";
  return ("allocations are compared with the greedy allocator's, and -regalloc=" + Other +
          " is another")
      .str();
}

const RegisterTargetPassConfigCallback AddPasses([](TargetMachine &Target, PassManagerBase &Manager,
                                                    TargetPassConfig *Passes) {
  static const Status Registered = registerAgents();
  (void)Registered;
  if (Target.getOptLevel() == CodeGenOptLevel::None) // another allocator
    return;
  if (std::string Why = whyNone(Target); !Why.empty()) {
    if (Flags.given())
      Manager.add(new LeftAlone(Target.getOptLevel(), std::move(Why)));
    return;
  }
  if (!Flags.triplets().empty())
    Passes->insertPass(&MachineSchedulerID, new TripletsPass);
  if (Flags.given())
    Passes->insertPass(&MachineSchedulerID, new RegisterAllocation);
  if (Flags.compares())
    for (char *After : {&RegisterAllocation::ID, &NamedAllocation::ID})
      Passes->insertPass(After, createBasicRegisterAllocator(
                                    [](const auto &...) { return RegisterAllocation::UsesBasic; }));
  Passes->insertPass(&NamedAllocation::ID, &RAGreedyLegacyID);
  // Finds nothing to do, and reports what the allocation costs, to compare it.
  if (!Flags.compares())
    Passes->insertPass(&RABasicID, &RAGreedyLegacyID);
});

} // namespace

} // namespace mlbridge::allocation

// What clang loads has this; the passes that it could add are of no use here.
extern "C" [[gnu::visibility("default")]] PassPluginLibraryInfo llvmGetPassPluginInfo() {
  return {LLVM_PLUGIN_API_VERSION, "RegisterAllocation", "1", [](PassBuilder &) {}};
}
