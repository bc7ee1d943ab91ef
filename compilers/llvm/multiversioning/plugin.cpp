// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Compiles functions that a profile says are hot a second time, for newer x86-64 processors; the
// program asks once which it runs on, so it runs on any.
//   clang-22 -O3 -fprofile-use=FILE -fpass-plugin=mlbridge-multiversioning.so
//   clang-22 -flto -fuse-ld=lld … -Wl,--load-pass-plugin=mlbridge-multiversioning.so
#include "eligible.h"
#include "processor.h"

#include "versions/pass_plugin.h"

#include "llvm/Analysis/BlockFrequencyInfo.h"
#include "llvm/Analysis/LoopInfo.h"
#include "llvm/Analysis/OptimizationRemarkEmitter.h"
#include "llvm/Analysis/ProfileSummaryInfo.h"
#include "llvm/IR/DebugInfoMetadata.h"
#include "llvm/IR/InstIterator.h"
#include "llvm/IR/Instructions.h"
#include "llvm/IR/MDBuilder.h"
#include "llvm/Passes/PassBuilder.h"
#include "llvm/TargetParser/Triple.h"
#include "llvm/Transforms/Utils/Cloning.h"

using namespace llvm;

namespace mlbridge::multiversioning {

namespace {

constexpr const char *Name = "multiversioning";
/// An attribute of a function that chooses between its versions, and of these; says which.
constexpr StringLiteral Mark = "mlbridge-multiversioning";
constexpr StringLiteral Chooses = "chooses", IsWide = "wide", IsBase = "base";
constexpr uint32_t Likely = 2000;
/// The loops get versions in which this part of all that is counted runs, in millionths. With 95 %
/// programs were larger by up to a fifth, and five of six slower.
constexpr int PartOfCounts = 800000;
/// Estimates in floating point come out a little below what was counted.
constexpr double Nearly = 0.9;

/// A function and what becomes of it.
struct Versions {
  llvm::Function *Usual;
  llvm::Function *Wide = nullptr;
  llvm::Function *Base = nullptr;
};

template <class Kind> void remark(const llvm::Function &F, StringRef Id, const Twine &Text) {
  const std::string Message = Text.str();
  OptimizationRemarkEmitter(&F).emit(
      [&] { return Kind(Name, Id, F.getSubprogram(), &F.getEntryBlock()) << Message; });
}

llvm::Function *copyOf(llvm::Function &F, const Twine &Ending, StringRef Kind) {
  ValueToValueMapTy Map;
  llvm::Function *const Copy = CloneFunction(&F, Map);
  Copy->setName(F.getName() + Ending);
  Copy->addFnAttr(Mark, Kind);
  Copy->eraseMetadata(LLVMContext::MD_type); // nobody calls it by its address
  if (F.isWeakForLinker() && F.hasComdat()) {
    // Where each module has it, the linker keeps one of these, too.
    Copy->setComdat(F.getParent()->getOrInsertComdat(Copy->getName()));
    Copy->setVisibility(GlobalValue::HiddenVisibility);
  } else {
    Copy->setComdat(nullptr);
    Copy->setVisibility(GlobalValue::DefaultVisibility);
    Copy->setLinkage(GlobalValue::InternalLinkage);
  }
  Copy->setDLLStorageClass(GlobalValue::DefaultStorageClass);
  Copy->setUnnamedAddr(GlobalValue::UnnamedAddr::Global);
  Copy->setDSOLocal(true);
  return Copy;
}

/// Has calls of functions with versions call one of these.
void redirect(llvm::Function &F, const DenseMap<llvm::Function *, llvm::Function *> &To) {
  for (Instruction &I : instructions(F))
    if (auto *const Call = dyn_cast<CallBase>(&I))
      if (llvm::Function *const Called = Call->getCalledFunction())
        if (llvm::Function *const Version = To.lookup(Called))
          Call->setCalledFunction(Version);
}

/// Has the function choose one of its versions.
void choose(const Versions &Made, const Processor &Asked) {
  llvm::Function &F = *Made.Usual;
  const GlobalValue::LinkageTypes Linkage = F.getLinkage();
  SmallVector<std::pair<unsigned, MDNode *>> Known; // its count, and what CFI takes it for
  F.getAllMetadata(Known);
  F.deleteBody();
  F.setLinkage(Linkage);
  for (const auto &[Kind, Node] : Known)
    F.addMetadata(Kind, *Node);
  F.addFnAttr(Mark, Chooses);
  F.setMemoryEffects(F.getMemoryEffects() | MemoryEffects::readOnly());
  LLVMContext &Context = F.getContext();
  IRBuilder<> Code(BasicBlock::Create(Context, "", &F));
  if (DISubprogram *const About = F.getSubprogram())
    Code.SetCurrentDebugLocation(DILocation::get(Context, About->getLine(), 0, About));
  BasicBlock *const Wide = BasicBlock::Create(Context, "", &F);
  BasicBlock *const Base = BasicBlock::Create(Context, "", &F);
  Code.CreateCondBr(Asked.has(Code), Wide, Base, MDBuilder(Context).createBranchWeights(Likely, 1));
  for (const auto &[Block, Version] : {std::pair(Wide, Made.Wide), std::pair(Base, Made.Base)}) {
    Code.SetInsertPoint(Block);
    SmallVector<Value *> Arguments;
    for (Argument &One : F.args())
      Arguments.push_back(&One);
    CallInst *const Call = Code.CreateCall(Version, Arguments);
    Call->setCallingConv(F.getCallingConv());
    Call->setAttributes(F.getAttributes().removeFnAttributes(Context));
    Call->setTailCallKind(CallInst::TCK_MustTail);
    if (Call->getType()->isVoidTy())
      Code.CreateRetVoid();
    else
      Code.CreateRet(Call);
  }
}

class MultiversioningPass : public PassInfoMixin<MultiversioningPass> {
public:
  PreservedAnalyses run(Module &M, ModuleAnalysisManager &Analyses) {
    const Triple Target(M.getTargetTriple());
    if (Target.getArch() != Triple::x86_64 || !Target.isOSBinFormatELF())
      return PreservedAnalyses::all();
    std::vector<Versions> Made = hot(M, Analyses);
    if (Made.empty())
      return PreservedAnalyses::all();
    const Processor Asked(M);
    DenseMap<llvm::Function *, llvm::Function *> Wide, Base;
    for (Versions &One : Made) {
      remark<OptimizationRemark>(*One.Usual, "Versions", "compiled for x86-64-v3 as well");
      Wide[One.Usual] = One.Wide = copyOf(*One.Usual, ".x86_64_v3", IsWide);
      Base[One.Usual] = One.Base = copyOf(*One.Usual, ".x86_64", IsBase);
    }
    for (const Versions &One : Made) {
      redirect(*One.Wide, Wide);
      redirect(*One.Base, Base);
      const StringRef Given = One.Wide->getFnAttribute("target-features").getValueAsString();
      One.Wide->addFnAttr("target-features", (Given + (Given.empty() ? "" : ",") + Features).str());
      // Processors without are from before 2015: they get the right program, and a small one.
      One.Base->addFnAttr(Attribute::OptimizeForSize);
      One.Base->addFnAttr(Attribute::Cold);
      One.Base->removeFnAttr(Attribute::Hot);
      One.Base->setEntryCount(0);
      choose(One, Asked);
    }
    return PreservedAnalyses::none();
  }
  static bool isRequired() { return true; }

private:
  /// The functions that get versions.
  static std::vector<Versions> hot(Module &M, ModuleAnalysisManager &Analyses) {
    auto &Profile = Analyses.getResult<ProfileSummaryAnalysis>(M);
    if (!Profile.hasInstrumentationProfile())
      return {};
    auto &OfFunctions = Analyses.getResult<FunctionAnalysisManagerModuleProxy>(M).getManager();
    std::vector<Versions> Found;
    for (llvm::Function &F : M) {
      if (F.isDeclaration() || F.hasFnAttribute(Mark) || F.hasOptSize())
        continue;
      auto &Frequencies = OfFunctions.getResult<BlockFrequencyAnalysis>(F);
      const auto Loops = OfFunctions.getResult<LoopAnalysis>(F).getLoopsInPreorder();
      if (none_of(Loops, [&](const Loop *One) {
            const uint64_t Count = Frequencies.getBlockProfileCount(One->getHeader()).value_or(0);
            return Count &&
                   Profile.isHotCountNthPercentile(PartOfCounts, uint64_t(double(Count) / Nearly));
          }))
        continue;
      if (const StringRef Why = whyNot(F); !Why.empty()) {
        remark<OptimizationRemarkMissed>(F, "LeftAlone", "one version: " + Why);
        continue;
      }
      Found.push_back({&F});
    }
    return Found;
  }
};

/// Where files are merged, versions call versions of other files' functions.
class JoinVersionsPass : public PassInfoMixin<JoinVersionsPass> {
public:
  PreservedAnalyses run(Module &M, ModuleAnalysisManager &) {
    DenseMap<llvm::Function *, llvm::Function *> Wide, Base;
    for (llvm::Function &F : M) {
      if (F.isDeclaration() || kindOf(F) != Chooses)
        continue;
      for (Instruction &I : instructions(F))
        if (auto *const Call = dyn_cast<CallBase>(&I))
          if (llvm::Function *const Called = Call->getCalledFunction()) {
            // Sanitizers and profilers have added calls of their own.
            if (const StringRef Kind = kindOf(*Called); Kind == IsWide)
              Wide[&F] = Called;
            else if (Kind == IsBase)
              Base[&F] = Called;
          }
    }
    if (Wide.empty())
      return PreservedAnalyses::all();
    for (llvm::Function &F : M)
      if (const StringRef Kind = kindOf(F); Kind == IsWide || Kind == IsBase)
        redirect(F, Kind == IsWide ? Wide : Base);
    return PreservedAnalyses::none();
  }
  static bool isRequired() { return true; }

private:
  static StringRef kindOf(const llvm::Function &F) {
    return F.getFnAttribute(Mark).getValueAsString();
  }
};

void addTo(PassBuilder &Builder) {
  Builder.registerPipelineParsingCallback(
      [](StringRef Given, ModulePassManager &To, ArrayRef<PassBuilder::PipelineElement>) {
        if (Given != "mlbridge-multiversioning")
          return false;
        To.addPass(MultiversioningPass());
        return true;
      });
  // Before loops are vectorized: for a full link by clang, for ThinLTO by the linker.
  Builder.registerOptimizerEarlyEPCallback(
      [](ModulePassManager &To, OptimizationLevel Level, ThinOrFullLTOPhase Phase) {
        if (Phase != ThinOrFullLTOPhase::ThinLTOPreLink && Level.getSpeedupLevel() > 1 &&
            Level.getSizeLevel() == 0)
          To.addPass(MultiversioningPass());
      });
  Builder.registerFullLinkTimeOptimizationEarlyEPCallback(
      [](ModulePassManager &To, OptimizationLevel) { To.addPass(JoinVersionsPass()); });
}

} // namespace

} // namespace mlbridge::multiversioning

extern "C" [[gnu::visibility("default")]] PassPluginLibraryInfo llvmGetPassPluginInfo() {
  return {LLVM_PLUGIN_API_VERSION, "Multiversioning", "1", mlbridge::multiversioning::addTo};
}
