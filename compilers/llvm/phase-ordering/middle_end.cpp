// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Which passes of the stock pipelines are skipped once a model has chosen others.
#include "middle_end.h"

#include "actions.h"

#include "llvm/ADT/StringSet.h"
#include "llvm/IR/Module.h"

using namespace llvm;

namespace mlbridge::phase_ordering {

bool isOptimization(StringRef PassClass) {
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

class ReplaceMiddleEndPass : public PassInfoMixin<ReplaceMiddleEndPass> {
public:
  ReplaceMiddleEndPass(std::shared_ptr<PipelineState> State,
                       std::function<bool(Module &, ModuleAnalysisManager &)> Choose)
      : State(std::move(State)), Choose(std::move(Choose)) {}

  PreservedAnalyses run(Module &M, ModuleAnalysisManager &MAM) {
    State->Replaced = false;
    if (State->Phase != ThinOrFullLTOPhase::None || !Choose(M, MAM))
      return PreservedAnalyses::all();
    State->Replaced = true;
    return PreservedAnalyses::none();
  }
  static bool isRequired() { return true; }

private:
  std::shared_ptr<PipelineState> State;
  std::function<bool(Module &, ModuleAnalysisManager &)> Choose;
};

} // namespace

void replaceMiddleEnd(PassBuilder &PB,
                      std::function<bool(Module &, ModuleAnalysisManager &)> Choose) {
  auto State = std::make_shared<PipelineState>();
  PB.registerPipelineStartEPCallback(
      [State, Choose = std::move(Choose)](ModulePassManager &MPM, OptimizationLevel Level) {
        if (Level != OptimizationLevel::O0)
          MPM.addPass(ReplaceMiddleEndPass(State, Choose));
      });
  // The first extension point that tells the phase; it is reached while the pipeline is built, so
  // before the pass above runs.
  PB.registerPipelineEarlySimplificationEPCallback(
      [State](ModulePassManager &, OptimizationLevel, ThinOrFullLTOPhase Phase) {
        State->Phase = Phase;
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
