// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Which passes of the stock pipelines are skipped once a model has chosen others.
#include "middle_end.h"

#include "actions.h"
#include "plugin/levels.h"
#include "versions/lto_phase.h"

#include "llvm/IR/Module.h"

#include <memory>
#include <utility>

using namespace llvm;

namespace mlbridge::phase_ordering {

/// True if this pass (by class name) of the stock pipelines only makes code smaller or faster.
static bool isOptimization(StringRef PassClass) {
  // A pass that is not named here runs: instrumentation, sanitizers, lowering, other plugins.
  static constexpr StringLiteral Names =
      " ADCEPass AggressiveInstCombinePass AlignmentFromAssumptionsPass ArgumentPromotionPass"
      " AssignmentTrackingPass AttributorCGSCCPass AttributorLightCGSCCPass AttributorLightPass"
      " AttributorPass BDCEPass CGProfilePass CallSiteSplittingPass CalledValuePropagationPass"
      " ConstantMergePass ConstraintEliminationPass ControlHeightReductionPass"
      " CorrelatedValuePropagationPass DCEPass DFAJumpThreadingPass DSEPass"
      " DeadArgumentEliminationPass DivRemPairsPass DropUnnecessaryAssumesPass EarlyCSEPass"
      " EliminateAvailableExternallyPass ExpandMemCmpPass Float2IntPass GVNHoistPass GVNPass"
      " GVNSinkPass GlobalDCEPass GlobalMergeFuncPass GlobalOptPass GuardWideningPass"
      " HotColdSplittingPass IPSCCPPass IROutlinerPass IndVarSimplifyPass InferAlignmentPass"
      " InferFunctionAttrsPass InjectTLIMappings InlinerPass InstCombinePass InstSimplifyPass"
      " JumpTableToSwitchPass JumpThreadingPass LCSSAPass LICMPass LibCallsShrinkWrapPass"
      " LoopDataPrefetchPass LoopDeletionPass LoopDistributePass LoopFlattenPass"
      " LoopFullUnrollPass LoopFusePass LoopIdiomRecognizePass LoopIdiomVectorizePass"
      " LoopInstSimplifyPass LoopInterchangePass LoopLoadEliminationPass LoopPredicationPass"
      " LoopRotatePass LoopSimplifyCFGPass LoopSimplifyPass LoopSinkPass LoopUnrollAndJamPass"
      " LoopUnrollPass LoopVectorizePass LoopVersioningLICMPass LowerExpectIntrinsicPass"
      " MemCpyOptPass MergeFunctionsPass MergeICmpsPass MergedLoadStoreMotionPass"
      " ModuleInlinerPass MoveAutoInitPass NewGVNPass OpenMPOptCGSCCPass OpenMPOptPass"
      " PGOIndirectCallPromotion PGOMemOPSizeOpt PartialInlinerPass PostOrderFunctionAttrsPass"
      " PromotePass ReassociatePass RelLookupTableConverterPass ReversePostOrderFunctionAttrsPass"
      " SCCPPass SLPVectorizerPass SROAPass SimpleLoopUnswitchPass SimplifyCFGPass SinkingPass"
      " SpeculativeExecutionPass StraightLineStrengthReducePass TailCallElimPass VectorCombinePass"
      " WarnMissedTransformationsPass ";
  return Names.contains((" " + PassClass + " ").str());
}

namespace {

/// The decision about the module that one pipeline is compiling. One for each PassBuilder, hence
/// never shared between modules that are compiled at the same time.
struct PipelineState {
  bool Replaced = false; ///< the rest of the host's optimizations is skipped
  bool Started = false;  ///< between a pipeline's first extension point and that of simplification
  ThinOrFullLTOPhase Phase = ThinOrFullLTOPhase::None;
};

/// The level of nearly all functions: a few are of the compiler, which gives them none.
StringRef levelOfFunctions(const Module &M, StringRef Otherwise) {
  uint64_t All = 0, ForSize = 0, Smallest = 0;
  for (const llvm::Function &F : M) {
    if (F.isDeclaration() || F.hasAvailableExternallyLinkage())
      continue;
    const uint64_t Instructions = F.getInstructionCount();
    All += Instructions;
    ForSize += F.hasOptSize() ? Instructions : 0; // which minsize implies
    Smallest += F.hasMinSize() ? Instructions : 0;
  }
  const auto IsMost = [All](uint64_t Part) { return All && Part * 20 >= All * 19; };
  return IsMost(Smallest) ? "Oz" : IsMost(ForSize) ? "Os" : Otherwise;
}

class ReplaceMiddleEndPass : public PassInfoMixin<ReplaceMiddleEndPass> {
public:
  ReplaceMiddleEndPass(std::shared_ptr<PipelineState> State, Chooser Choose, StringRef Level)
      : State(std::move(State)), Choose(std::move(Choose)), Level(Level) {}

  PreservedAnalyses run(Module &M, ModuleAnalysisManager &MAM) {
    Pipeline Begins{Level, State->Phase};
    if (Begins.Phase == ThinOrFullLTOPhase::None && versions::isMarkedForLTO(M))
      Begins.Phase = ThinOrFullLTOPhase::FullLTOPreLink;
    if (Begins.isLink() && Level != "O0")
      Begins.Level = levelOfFunctions(M, Level);
    State->Replaced = Choose(M, MAM, Begins);
    return State->Replaced ? PreservedAnalyses::none() : PreservedAnalyses::all();
  }
  static bool isRequired() { return true; }

private:
  std::shared_ptr<PipelineState> State;
  Chooser Choose;
  StringRef Level;
};

} // namespace

void replaceMiddleEnd(PassBuilder &PB, Chooser Choose) {
  auto State = std::make_shared<PipelineState>();
  const auto Add = [State, Choose = std::move(Choose)](ModulePassManager &MPM,
                                                       OptimizationLevel Level) {
    MPM.addPass(ReplaceMiddleEndPass(State, Choose, plugin::nameOf(Level)));
  };
  PB.registerPipelineStartEPCallback([State, Add](ModulePassManager &MPM, OptimizationLevel Level) {
    State->Started = true;
    Add(MPM, Level);
  });
  // The first extension point that tells the phase; it is reached while the pipeline is built, so
  // before the pass above runs. Of a linker's pipelines it is the first one at all.
  PB.registerPipelineEarlySimplificationEPCallback(
      [State, Add](ModulePassManager &MPM, OptimizationLevel Level, auto... Told) {
        State->Phase = versions::phaseOf(std::exchange(State->Started, false), Told...);
        if (State->Phase == ThinOrFullLTOPhase::ThinLTOPostLink)
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
