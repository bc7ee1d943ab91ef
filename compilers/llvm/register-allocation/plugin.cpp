// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A register allocator for stock clang-22 and llc-22 whose decisions models make.
//   llc-22 -load mlbridge-register-allocation.so -register-allocation-model=URIS
//   llc-22 -load mlbridge-register-allocation.so -regalloc=mlbridge
//   clang-22 -O2 -Xclang -fpass-plugin=mlbridge-register-allocation.so -Xclang -mllvm
//     -Xclang -register-allocation-model=URIS
#include "environment.h"
#include "mir_triplets.h"
#include "plugin/agent_models.h"
#include "plugin/asm_goto.h"
#include "trials/allocation_trials.h"
#include "trials/trial_process.h"
#include "versions/pass_plugin.h"

#include "llvm/ADT/StringExtras.h"
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

namespace mlbridge::register_allocation {

namespace {

constexpr const char *Name = "register-allocation";

const plugin::Flags Flags(Name, "The models that allocate registers: one URI, or AGENT=URI;...",
                          "O1,O2,O3,Os,Oz");
const plugin::Flag
    EffortFlag(Name, "effort", "0", "N",
               "More than 0: of the models' allocation of a function and the greedy allocator's, "
               "that with the least spills, reloads and copies is kept");
const plugin::Flag VocabularyFlag(Name, "vocabulary", "", "FILE",
                                  "The vocabulary for embeddings instead of the built-in one");
const plugin::Flag
    TripletsFlag(Name, "triplets", "", "FILE",
                 "Write what stands beside what in the machine code of all functions "
                 "before registers are allocated");

/// Allocations are compared if this is not 0; InvalidArgument if they can't be with these models.
Expected<unsigned> effort(StringRef Uris) {
  SmallVector<StringRef, 4> Models;
  for (StringRef Entry : split(Uris, ';')) {
    const size_t End = Entry.find_first_of("=:"); // of the agent's name, if there is one
    if (!Entry.trim().empty())
      Models.push_back(Entry.substr(Entry.substr(End, 1) == "=" ? End + 1 : 0).trim());
  }
  return trial::effortOf(EffortFlag.name(), EffortFlag.value(), Models);
}

bool comparesAllocations() {
  const Expected<unsigned> Effort = effort("");
  return Effort && *Effort;
}

/// The options for one module.
struct ModuleOptions {
  plugin::Settings Settings = Flags.settings();
  bool AreInvalid = false; ///< as a diagnostic has said
  bool Compares = false;

  ModuleOptions() {
    if (!Flags.given())
      Settings.Model = "function:heuristic"; // -regalloc=mlbridge
  }

  void check(LLVMContext &Context) {
    const Expected<unsigned> Effort = effort(Settings.Model);
    Status Valid = Settings.validate();
    if (Valid)
      Valid = Effort.status();
    if (!Valid)
      Settings.refuse(Context, Valid);
    AreInvalid = !Valid;
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
    ModuleOptions Options;
    Options.check(M.getContext());
    if (Options.AreInvalid)
      return false;
    const auto First = find_if(M, [&](const llvm::Function &F) {
      return !F.isDeclaration() && Options.Settings.wants(F, Level);
    });
    if (First == M.end())
      return false;
    OptimizationRemarkMissed Remark(Name, "Left", &*First);
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
  /// True if LLVM's basic allocator is to take the function that this pass has left.
  static thread_local bool UsesBasic;
  explicit RegisterAllocation(char &Pass = ID) : MachineFunctionPass(Pass) {}

private:
  StringRef getPassName() const override { return "Register allocation by models"; }

  MachineFunctionProperties getRequiredProperties() const override {
    return MachineFunctionProperties().setNoPHIs();
  }

  template <class... Passes> static void addUpdated(AnalysisUsage &Usage) {
    (Usage.addRequired<Passes>().template addPreserved<Passes>(), ...);
  }

  void getAnalysisUsage(AnalysisUsage &Usage) const override {
    Usage.setPreservesCFG();
    Usage.addPreserved<SlotIndexesWrapperPass>();
    addUpdated<LiveIntervalsWrapperPass, LiveDebugVariablesWrapperLegacy, LiveStacksWrapperLegacy,
               MachineBlockFrequencyInfoWrapperPass>(Usage);
    Usage.addRequired<EdgeBundlesWrapperLegacy>();
    addUpdated<MachineDominatorTreeWrapperPass, MachineLoopInfoWrapperPass, VirtRegMapWrapperLegacy,
               LiveRegMatrixWrapperLegacy>(Usage);
    Usage.addRequired<MachineOptimizationRemarkEmitterPass>();
    MachineFunctionPass::getAnalysisUsage(Usage);
  }

  bool doInitialization(Module &M) override {
    Options = ModuleOptions();
    Options.check(M.getContext());
    HasFailed = Options.AreInvalid;
    return false;
  }

  bool doFinalization(Module &) override {
    trial::mustNotBeTrial();
    return false;
  }

  bool runOnMachineFunction(MachineFunction &MF) override {
    trial::mustNotBeTrial();
    UsesBasic = false;
    const llvm::Function &F = MF.getFunction();
    if (HasFailed || !Options.Settings.wants(F, MF.getTarget().getOptLevel()) || !hasRanges(MF))
      return false;
    auto &Remarks = getAnalysis<MachineOptimizationRemarkEmitterPass>().getORE();
    const auto Leave = [&](StringRef Why) {
      Remarks.emit([&] {
        return MachineOptimizationRemarkMissed(Name, "Left", F.getSubprogram(), &MF.front())
               << (F.getName() + " is left to the " + (UsesBasic ? "basic" : "greedy") +
                   " allocator: " + Why)
                      .str();
      });
    };
    if (plugin::hasAsmGotoOutputs(MF)) { // also not to the basic allocator
      Leave("an asm goto gives values, which LLVM doesn't spill rightly");
      return false;
    }
    VirtRegMap &Map = getAnalysis<VirtRegMapWrapperLegacy>().getVRM();
    MachineBlockFrequencyInfo &Frequencies =
        getAnalysis<MachineBlockFrequencyInfoWrapperPass>().getMBFI();
    Allocation State(MF, {getAnalysis<LiveIntervalsWrapperPass>().getLIS(), Map,
                          getAnalysis<LiveRegMatrixWrapperLegacy>().getLRM(),
                          getAnalysis<LiveStacksWrapperLegacy>().getLS(),
                          getAnalysis<LiveDebugVariablesWrapperLegacy>().getLDV(),
                          getAnalysis<MachineDominatorTreeWrapperPass>().getDomTree(),
                          getAnalysis<MachineLoopInfoWrapperPass>().getLI(), Frequencies,
                          getAnalysis<EdgeBundlesWrapperLegacy>().getEdgeBundles(), Remarks});
    Status Compared;
    bool IsCompared = !Options.Compares;
    // True if this allocation costs less than the greedy allocator's, and in a process that tries
    // one, if that tries this one.
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
      trial::reportAllocation(Name, MF, *Costs[0], *Costs[1]);
      return true;
    };
    if (const std::string Why = State.refusal(); !Why.empty()) {
      UsesBasic = Options.Compares && IsBetter(std::nullopt);
      if (Compared)
        Leave(Why);
      else
        fail(MF, Compared);
      return false;
    }
    Models.open(Options.Settings, VocabularyFlag.value(), *F.getParent());
    std::optional<RangeEmbeddings> Vectors;
    if (Models.vocabulary())
      Vectors.emplace(MF, *Models.vocabulary());
    const auto WhyNot = [&](std::optional<trial::AllocationCost> Known) -> std::string {
      if (!IsBetter(Known))
        return "that does not cost more";
      State.publish();
      return "";
    };
    std::function<std::string()> BeforeChanges;
    if (Options.Compares) {
      BeforeChanges = [&] { return WhyNot(std::nullopt); };
      State.hold();
    }
    AllocationEnvironment Environment(State, Models.specs(), Vectors ? &*Vectors : nullptr,
                                      std::move(BeforeChanges));
    State.begin();
    const EpisodeResult Result = Models.run(Environment, F);
    std::string Why = Environment.impossible();
    if (Result.status) {
      State.finish();
      trial::endTrial(MF, Map, Frequencies);
      if (!IsCompared)
        Why = WhyNot(trial::costOf(MF, Map, Frequencies));
      if (Why.empty())
        return true;
    }
    State.giveUp();
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

  void fail(const MachineFunction &MF, const Status &Failure) {
    trial::endTrial(Failure);
    HasFailed = true;
    Options.Settings.giveUp(MF.getFunction().getContext(), Failure.withContext(MF.getName()));
  }

  ModuleOptions Options;
  plugin::AgentModels<AllocationEnvironment, embeddings::MachineVocabulary> Models;
  bool HasFailed = false;
};

char RegisterAllocation::ID = 0;
thread_local bool RegisterAllocation::UsesBasic = false;

/// The allocator that -regalloc=mlbridge names, with the greedy one behind it.
class NamedAllocation final : public RegisterAllocation {
public:
  static char ID;
  NamedAllocation() : RegisterAllocation(ID) {}
};

char NamedAllocation::ID = 0;

/// Writes the triplets on which vocabularies are trained.
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
    Triplets.add(MF);
    return false;
  }
  bool doFinalization(Module &M) override {
    std::error_code Failure;
    const std::string Path = TripletsFlag.value();
    raw_fd_ostream To(Path, Failure);
    if (!Failure) {
      Triplets.write(To);
      To.close();
      Failure = To.error();
      To.clear_error();
    }
    if (Failure)
      M.getContext().emitError("register-allocation: -register-allocation-triplets=" + Path + ": " +
                               Failure.message());
    return false;
  }

  embeddings::MachineTriplets Triplets;
};

char TripletsPass::ID = 0;

const RegisterRegAlloc Named("mlbridge", "allocation by models", []() -> FunctionPass * {
  // With a model, the other pass runs before.
  if (Flags.given())
    return createGreedyRegisterAllocator();
  return new NamedAllocation;
});

/// The allocator that the user names with -regalloc; empty without the option.
StringRef otherAllocator() {
  using Constructor = RegisterRegAlloc::FunctionPassCtor;
  using Option = cl::opt<Constructor, false, RegisterPassParser<RegisterRegAlloc>>;
  const cl::Option *Given = cl::getRegisteredOptions().lookup("regalloc");
  if (!Given || !Given->getNumOccurrences())
    return "";
  const Constructor Wanted = static_cast<const Option *>(Given)->getValue();
  for (const RegisterRegAlloc *Known = RegisterRegAlloc::getList(); Known; Known = Known->getNext())
    if (Known->getCtor() == Wanted)
      return Known->getName();
  return "";
}

/// Why no function can be allocated by models; empty if some can.
std::string whyNone(const TargetMachine &Target) {
  if (std::string Why = Allocation::refusal(Target.getTargetTriple()); !Why.empty())
    return Why;
  if (!comparesAllocations())
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
  if (!TripletsFlag.value().empty())
    Passes->insertPass(&MachineSchedulerID, new TripletsPass);
  if (Flags.given())
    Passes->insertPass(&MachineSchedulerID, new RegisterAllocation);
  if (comparesAllocations())
    for (char *After : {&RegisterAllocation::ID, &NamedAllocation::ID})
      Passes->insertPass(After, createBasicRegisterAllocator(
                                    [](const auto &...) { return RegisterAllocation::UsesBasic; }));
  Passes->insertPass(&NamedAllocation::ID, &RAGreedyLegacyID);
  // This pass finds nothing to do, and reports what the allocation costs, to compare it.
  if (!comparesAllocations())
    Passes->insertPass(&RABasicID, &RAGreedyLegacyID);
});

} // namespace

} // namespace mlbridge::register_allocation

// A plugin that clang loads has this; the passes that it could add are of no use here.
extern "C" [[gnu::visibility("default")]] PassPluginLibraryInfo llvmGetPassPluginInfo() {
  return {LLVM_PLUGIN_API_VERSION, "RegisterAllocation", "1", [](PassBuilder &) {}};
}
