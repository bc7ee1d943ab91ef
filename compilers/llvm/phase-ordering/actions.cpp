// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Reads and checks the list of actions, and runs one of them; and which passes of the stock
// pipelines are skipped once a model has chosen others.
#include "actions.h"

#include "builtin_actions.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/IR/Module.h"
#include "llvm/Support/JSON.h"
#include "llvm/Support/xxhash.h"

using namespace llvm;

namespace mlbridge::phase_ordering {

static Error failure(const Twine &Message) {
  return createStringError(inconvertibleErrorCode(), "phase-ordering.actions: " + Message);
}

StringRef ActionList::builtin() { return BuiltinActions; }

Expected<ActionList> ActionList::parse(StringRef Text) {
  Expected<json::Value> Root = json::parse(Text);
  if (!Root)
    return failure("not JSON: " + toString(Root.takeError()));
  const json::Object *Top = Root->getAsObject();
  if (!Top)
    return failure("expected an object with \"version\" and \"actions\"");
  const std::optional<int64_t> Version = Top->getInteger("version");
  if (!Version || *Version != 1)
    return failure(Version ? "expected version 1, got " + Twine(*Version)
                           : Twine("expected \"version\": 1, got none"));
  const json::Array *Items = Top->getArray("actions");
  if (!Items || Items->empty())
    return failure("expected a non-empty array \"actions\"");

  ActionList List;
  List.Text = Text.str();
  List.Builder = std::make_unique<PassBuilder>();
  StringSet<> Names;
  std::string Canonical;
  for (const json::Value &Item : *Items) {
    const json::Object *Group = Item.getAsObject();
    const std::optional<StringRef> Name = Group ? Group->getString("name") : std::nullopt;
    const std::optional<StringRef> Passes = Group ? Group->getString("passes") : std::nullopt;
    if (!Name || Name->empty() || !Passes || Passes->empty())
      return failure("action " + Twine(List.Groups.size()) +
                     ": expected non-empty strings \"name\" and \"passes\"");
    if (*Name == "stop" || !Names.insert(*Name).second)
      return failure("action " + Twine(List.Groups.size()) + ": the name '" + *Name +
                     (*Name == "stop" ? "' is reserved" : "' occurs twice"));
    ModulePassManager Parsed;
    if (Error E = List.Builder->parsePassPipeline(Parsed, *Passes))
      return failure("action '" + *Name + "': LLVM refuses '" + *Passes +
                     "': " + toString(std::move(E)));
    List.Groups.push_back({Name->str(), Passes->str()});
    (Canonical += *Name) += '\0';
    (Canonical += *Passes) += '\0';
  }
  List.Digest = utohexstr(xxh3_64bits(Canonical), /*LowerCase=*/true, /*Width=*/16);
  return List;
}

Error runPipeline(PassBuilder &Builder, StringRef Passes, Module &M, ModuleAnalysisManager &MAM) {
  ModulePassManager Pipeline;
  if (Error E = Builder.parsePassPipeline(Pipeline, Passes))
    return E;
  MAM.invalidate(M, Pipeline.run(M, MAM));
  return Error::success();
}

Error ActionList::run(size_t Index, Module &M, ModuleAnalysisManager &MAM) const {
  // Parsed anew each time: some passes keep state of the module they last saw.
  return runPipeline(*Builder, Groups[Index].Passes, M, MAM);
}

/// Whether this pass (by class name) of the stock pipelines only makes code smaller or faster.
static bool isOptimization(StringRef PassClass) {
  // A pass that is not named here runs: instrumentation, sanitizers, lowering, other plugins.
  static const StringSet<> Names = {
      "ADCEPass",
      "AggressiveInstCombinePass",
      "AlignmentFromAssumptionsPass",
      "ArgumentPromotionPass",
      "AssignmentTrackingPass",
      "AttributorCGSCCPass",
      "AttributorLightCGSCCPass",
      "AttributorLightPass",
      "AttributorPass",
      "BDCEPass",
      "CGProfilePass",
      "CallSiteSplittingPass",
      "CalledValuePropagationPass",
      "ConstantMergePass",
      "ConstraintEliminationPass",
      "ControlHeightReductionPass",
      "CorrelatedValuePropagationPass",
      "DCEPass",
      "DFAJumpThreadingPass",
      "DSEPass",
      "DeadArgumentEliminationPass",
      "DivRemPairsPass",
      "DropUnnecessaryAssumesPass",
      "EarlyCSEPass",
      "EliminateAvailableExternallyPass",
      "ExpandMemCmpPass",
      "Float2IntPass",
      "GVNHoistPass",
      "GVNPass",
      "GVNSinkPass",
      "GlobalDCEPass",
      "GlobalMergeFuncPass",
      "GlobalOptPass",
      "GuardWideningPass",
      "HotColdSplittingPass",
      "IPSCCPPass",
      "IROutlinerPass",
      "IndVarSimplifyPass",
      "InferAlignmentPass",
      "InferFunctionAttrsPass",
      "InjectTLIMappings",
      "InlinerPass",
      "InstCombinePass",
      "InstSimplifyPass",
      "JumpTableToSwitchPass",
      "JumpThreadingPass",
      "LCSSAPass",
      "LICMPass",
      "LibCallsShrinkWrapPass",
      "LoopDataPrefetchPass",
      "LoopDeletionPass",
      "LoopDistributePass",
      "LoopFlattenPass",
      "LoopFullUnrollPass",
      "LoopFusePass",
      "LoopIdiomRecognizePass",
      "LoopIdiomVectorizePass",
      "LoopInstSimplifyPass",
      "LoopInterchangePass",
      "LoopLoadEliminationPass",
      "LoopPredicationPass",
      "LoopRotatePass",
      "LoopSimplifyCFGPass",
      "LoopSimplifyPass",
      "LoopSinkPass",
      "LoopUnrollAndJamPass",
      "LoopUnrollPass",
      "LoopVectorizePass",
      "LoopVersioningLICMPass",
      "LowerExpectIntrinsicPass",
      "MemCpyOptPass",
      "MergeFunctionsPass",
      "MergeICmpsPass",
      "MergedLoadStoreMotionPass",
      "ModuleInlinerPass",
      "MoveAutoInitPass",
      "NewGVNPass",
      "OpenMPOptCGSCCPass",
      "OpenMPOptPass",
      "PGOIndirectCallPromotion",
      "PGOMemOPSizeOpt",
      "PartialInlinerPass",
      "PostOrderFunctionAttrsPass",
      "PromotePass",
      "ReassociatePass",
      "RelLookupTableConverterPass",
      "ReversePostOrderFunctionAttrsPass",
      "SCCPPass",
      "SLPVectorizerPass",
      "SROAPass",
      "SimpleLoopUnswitchPass",
      "SimplifyCFGPass",
      "SinkingPass",
      "SpeculativeExecutionPass",
      "StraightLineStrengthReducePass",
      "TailCallElimPass",
      "VectorCombinePass",
      "WarnMissedTransformationsPass",
  };
  return Names.contains(PassClass);
}

namespace {

/// What was decided for the module that one pipeline is compiling. One for each PassBuilder, hence
/// never shared between modules that are compiled at the same time.
struct PipelineState {
  bool Replaced = false; ///< whether the rest of the host's optimizations is skipped
  ThinOrFullLTOPhase Phase = ThinOrFullLTOPhase::None;
};

class ReplaceMiddleEndPass : public PassInfoMixin<ReplaceMiddleEndPass> {
public:
  ReplaceMiddleEndPass(std::shared_ptr<PipelineState> State, Chooser Choose, StringRef Level)
      : State(std::move(State)), Choose(std::move(Choose)), Level(Level) {}

  PreservedAnalyses run(Module &M, ModuleAnalysisManager &MAM) {
    State->Replaced = Choose(M, MAM, Level);
    return State->Replaced ? PreservedAnalyses::none() : PreservedAnalyses::all();
  }
  static bool isRequired() { return true; }

private:
  std::shared_ptr<PipelineState> State;
  Chooser Choose;
  StringRef Level;
};

StringRef nameOf(OptimizationLevel Level) {
  constexpr StringLiteral Speed[] = {"O0", "O1", "O2", "O3"}, Size[] = {"Os", "Oz"};
  return Level.getSizeLevel() ? Size[Level.getSizeLevel() - 1] : Speed[Level.getSpeedupLevel()];
}

} // namespace

void replaceMiddleEnd(PassBuilder &PB, Chooser Choose,
                      std::function<void(Module &, StringRef)> Leave) {
  auto State = std::make_shared<PipelineState>();
  const auto Add = [State, Choose = std::move(Choose),
                    Leave = std::move(Leave)](ModulePassManager &MPM, OptimizationLevel Level) {
    const auto Decide = [State, Choose, Leave](Module &M, ModuleAnalysisManager &MAM,
                                               StringRef Name) {
      const bool Linked = State->Phase != ThinOrFullLTOPhase::None;
      if (Name != "O0" && !Linked)
        return Choose(M, MAM, Name);
      if (Leave)
        Leave(M, Linked ? "with -flto the linker optimizes" : "-O0 optimizes nothing");
      return false;
    };
    MPM.addPass(ReplaceMiddleEndPass(State, Decide, nameOf(Level)));
  };
  PB.registerPipelineStartEPCallback(Add);
  // The first extension point that tells the phase; it is reached while the pipeline is built, so
  // before the pass above runs. Of a linker's pipelines it is the first one at all.
  PB.registerPipelineEarlySimplificationEPCallback(
      [State, Add](ModulePassManager &MPM, OptimizationLevel Level, ThinOrFullLTOPhase Phase) {
        State->Phase = Phase;
        if (Phase == ThinOrFullLTOPhase::ThinLTOPostLink)
          Add(MPM, Level);
      });
  PB.registerFullLinkTimeOptimizationEarlyEPCallback(
      [State, Add](ModulePassManager &MPM, OptimizationLevel Level) {
        State->Phase = ThinOrFullLTOPhase::FullLTOPostLink;
        Add(MPM, Level);
      });
  if (PassInstrumentationCallbacks *PIC = PB.getPassInstrumentationCallbacks())
    PIC->registerShouldRunOptionalPassCallback([State](StringRef PassClass, const Any &) {
      return !State->Replaced || !isOptimization(PassClass.split('<').first);
    });
}

Error runMandatoryLowering(Module &M, ModuleAnalysisManager &MAM) {
  PassBuilder Builder;
  std::string Passes = "function(declare-to-assign,ee-instrument<>),coro-early,always-inline";
  for (const Function &F : M)
    if (F.isPresplitCoroutine()) {
      Passes += ",cgscc(coro-split),coro-cleanup";
      break;
    }
  return runPipeline(Builder, Passes, M, MAM);
}

} // namespace mlbridge::phase_ordering
