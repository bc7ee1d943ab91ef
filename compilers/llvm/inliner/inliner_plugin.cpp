// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// LLVM's own learned inlining advisor, which computes the features, with any model.
//   clang-22 -Oz -Xclang -fpass-plugin=mlbridge-inliner.so -Xclang -mllvm
//     -Xclang -inliner-model=URI
//   opt-22 -load-pass-plugin mlbridge-inliner.so -passes='default<Oz>' -inliner-model=URI
#include "explore.h"

#include "plugin/advisor.h"
#include "plugin/flags.h"
#include "plugin/levels.h"
#include "versions/ml_inline_advisor.h"
#include "versions/pass_plugin.h"

#include "llvm/Passes/PassBuilder.h"
#include "llvm/Support/CommandLine.h"

using namespace llvm;

static const mlbridge::plugin::AdvisorFlags
    Flags("inliner", "The model that decides what is inlined", "Os,Oz");
// For the phase-ordering plugin, which compares the model's code with that of plain clang.
static cl::opt<bool> ComparedOption("inliner-compared", cl::Hidden,
                                    cl::desc("Ask the model only where -inliner-candidate is set"));
static cl::opt<bool> CandidateOption("inliner-candidate", cl::Hidden,
                                     cl::desc("With -inliner-compared: ask the model"));

namespace mlbridge::inliner {

namespace {

/// The pipeline of one PassBuilder, that is, of one module at a time.
struct Pipeline {
  ModuleAnalysisManager *Modules = nullptr;
  StringRef Level; ///< "Oz"; empty where the inliner was named itself
};

/// Leads from a function's analyses, all that LLVM gives to a plugin's advisor, to its pipeline.
class PipelineAnalysis : public AnalysisInfoMixin<PipelineAnalysis> {
public:
  struct Result {
    std::shared_ptr<Pipeline> Current;
    bool invalidate(Function &, const PreservedAnalyses &, FunctionAnalysisManager::Invalidator &) {
      return false;
    }
  };
  explicit PipelineAnalysis(std::shared_ptr<Pipeline> Current) : Current(std::move(Current)) {}
  Result run(Function &, FunctionAnalysisManager &) { return {Current}; }

private:
  friend AnalysisInfoMixin<PipelineAnalysis>;
  static AnalysisKey Key;
  std::shared_ptr<Pipeline> Current;
};
AnalysisKey PipelineAnalysis::Key;

/// LLVM's heuristic, asked beside another advisor.
class Heuristic {
public:
  Heuristic(Module &M, FunctionAnalysisManager &FAM, const InlineParams &Params, InlineContext IC)
      : Advisor(M, FAM, Params, IC) {}
  bool operator()(CallBase &CB) {
    const std::unique_ptr<InlineAdvice> Advice = Advisor.getAdvice(CB);
    if (!Advice)
      return false;
    const bool IsRecommended = Advice->isInliningRecommended();
    Advice->recordUnattemptedInlining(); // by this advisor
    return IsRecommended;
  }

private:
  DefaultInlineAdvisor Advisor;
};

class ModelInlineAdvisor final : public MLInlineAdvisor {
public:
  ModelInlineAdvisor(Module &M, ModuleAnalysisManager &MAM, plugin::Settings Options,
                     StringRef Level, const std::shared_ptr<Heuristic> &Stock)
      : MLInlineAdvisor(M, MAM, versions::modelRunner([&](const auto &Features) {
                          return makeRunner(M, Options, Features);
                        }),
                        [Stock](CallBase &CB) { return (*Stock)(CB); }),
        Options(std::move(Options)), Level(Level) {
    if (const Signature *Known = runner().runner().signature())
      Default = Known->findInput(DefaultDecisionName);
  }

  /// The reason for which the model can't be asked at all, or Ok.
  const Status &status() const { return runner().status(); }

private:
  static std::unique_ptr<LLVMModelRunner> makeRunner(Module &M, const plugin::Settings &Options,
                                                     std::vector<llvm::TensorSpec> Features) {
    const Model Policy = plugin::openForProcess(Options);
    const Signature *Known = Policy.modelSignature();
    // This feature costs as much as the heuristic does.
    if (!Known || Known->findInput(DefaultDecisionName) >= 0)
      Features.push_back(DefaultDecisionSpec);
    return plugin::newRunner(Options, Policy, M, Features, InlineDecisionSpec);
  }

  LLVMModelRunner &runner() const { return static_cast<LLVMModelRunner &>(*ModelRunner); }

  std::unique_ptr<MLInlineAdvice> getAdviceFromModel(CallBase &CB,
                                                     OptimizationRemarkEmitter &ORE) override {
    return std::make_unique<MLInlineAdvice>(this, CB, ORE, decide(CB));
  }

  bool decide(CallBase &CB) {
    if (Failed || !Options.wants(plugin::levelOf(*CB.getCaller(), Level)))
      return GetDefaultAdvice(CB);
    if (Default >= 0)
      *ModelRunner->getTensor<int64_t>(Default) = GetDefaultAdvice(CB);
    const int64_t Answer = ModelRunner->evaluate<int64_t>();
    Status Why = runner().status();
    if (Why && Answer != 0 && Answer != 1)
      Why = Status(Code::PolicyFailed, std::string(DecisionName) + " is " + std::to_string(Answer) +
                                           "; expected 0 or 1");
    if (Why)
      return Answer == 1;
    Failed = true;
    Options.giveUp(M.getContext(), Why);
    return GetDefaultAdvice(CB);
  }

  const plugin::Settings Options;
  const StringRef Level;
  int Default = -1;    ///< the index of inlining_default, if the model knows it
  bool Failed = false; ///< the rest of the module is LLVM's
};

} // namespace

static InlineAdvisor *newAdvisor(Module &M, FunctionAnalysisManager &FAM, InlineParams Params,
                                 InlineContext IC) {
  const auto Stock = [&] { return new DefaultInlineAdvisor(M, FAM, Params, IC); };
  const plugin::Settings Options = Flags.advisorSettings();
  const auto Defined = make_filter_range(M, [](Function &F) { return !F.isDeclaration(); });
  if (Defined.empty() || (ComparedOption && !CandidateOption))
    return Stock();
  const Pipeline &Current = *FAM.getResult<PipelineAnalysis>(*Defined.begin()).Current;
  if (const Status Checked = Options.validate(); !Checked) {
    Options.refuse(M.getContext(), Checked);
    return Stock();
  }
  if (none_of(Defined,
              [&](const Function &F) { return Options.wants(plugin::levelOf(F, Current.Level)); }))
    return Stock();
  auto Advisor = std::make_unique<ModelInlineAdvisor>(
      M, *Current.Modules, Options, Current.Level, std::make_shared<Heuristic>(M, FAM, Params, IC));
  if (Advisor->status())
    return Advisor.release();
  Options.giveUp(M.getContext(), Advisor->status());
  return Stock();
}

static void registerCallbacks(PassBuilder &PB) {
  registerExploration();
  const auto State = std::make_shared<Pipeline>();
  PB.registerAnalysisRegistrationCallback([State](ModuleAnalysisManager &MAM) {
    State->Modules = &MAM;
    MAM.registerPass([] { return PluginInlineAdvisorAnalysis(newAdvisor); });
  });
  PB.registerAnalysisRegistrationCallback([State](FunctionAnalysisManager &FAM) {
    FAM.registerPass([State] { return PipelineAnalysis(State); });
  });
  PB.registerPipelineStartEPCallback([State](ModulePassManager &, OptimizationLevel Level) {
    State->Level = plugin::nameOf(Level);
  });
  // ThinLTO's back ends and full LTO begin here.
  PB.registerPipelineEarlySimplificationEPCallback(
      [State](ModulePassManager &, OptimizationLevel Level, auto...) {
        State->Level = plugin::nameOf(Level);
      });
  PB.registerFullLinkTimeOptimizationEarlyEPCallback(
      [State](ModulePassManager &, OptimizationLevel Level) {
        State->Level = plugin::nameOf(Level);
      });
}

} // namespace mlbridge::inliner

extern "C" [[gnu::visibility("default")]] PassPluginLibraryInfo llvmGetPassPluginInfo() {
  return {LLVM_PLUGIN_API_VERSION, "Inliner", "1", mlbridge::inliner::registerCallbacks};
}
