// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A model, or a profile, says which functions are compiled for size.
//   clang-22 -O2 -Xclang -fpass-plugin=mlbridge-hotness.so -Xclang -mllvm
//     -Xclang -hotness-model=URI
//   opt-22 -load-pass-plugin mlbridge-hotness.so -passes='default<O2>' -hotness-model=URI
#include "eligible.h"
#include "features.h"
#include "models.h"

#include "plugin/advisor.h"
#include "plugin/flags.h"
#include "plugin/levels.h"
#include "plugin/profile_options.h"
#include "versions/pass_plugin.h"

#include <mlbridge/runner.h>

#include "llvm/Analysis/OptimizationRemarkEmitter.h"
#include "llvm/IR/LLVMContext.h"
#include "llvm/Passes/PassBuilder.h"
#include "llvm/ProfileData/InstrProf.h"

#include <array>
#include <functional>

using namespace llvm;

namespace mlbridge::hotness {

namespace {

constexpr const char *Name = "hotness";
/// Set on a function that was compiled for size here, so that the linker may decide anew.
constexpr StringLiteral Mark = "mlbridge-hotness";

const plugin::Flags ModelFlags(Name, "The model that says which functions are compiled for size",
                               "O1,O2,O3");
const plugin::Flag GoalFlag(Name, "goal", "O2-speed", "O2-speed|Os-size|Oz-size",
                            "What is wanted: the speed of -O2, or the size of -Os or -Oz");
struct Options : plugin::Settings {
  size_t Goal = 0;
};

mlbridge::Expected<Options> readOptions() {
  Options Given{ModelFlags.settings()};
  const std::string Goal = GoalFlag.value();
  const auto Found = llvm::find(Goals, Goal);
  Given.Goal = size_t(Found - Goals.begin());
  Status Valid = Given.validate();
  if (Valid && Found == Goals.end())
    Valid = Given.invalid("goal", "O2-speed, Os-size or Oz-size", Goal);
  if (!Valid)
    return Valid;
  return Given;
}

/// The name in a profile, without what ThinLTO appends to that of a static function.
std::string nameOf(const llvm::Function &F) {
  return StringRef(getIRPGOFuncName(F)).split(".llvm.").first.str();
}

/// What is decided about the functions of a module, in the order of its description.
using Decisions = std::vector<For>;

mlbridge::Expected<Decisions> ask(const Options &Given, Module &M, const Description &About) {
  mlbridge::Model Policy = plugin::openForProcess(Given);
  if (Status Bound = Policy.bind(signature()); !Bound)
    return Bound;
  Runner Asked = Policy.newRunner(CallContext{"", "", M.getSourceFileName()});
  const size_t Count = About.Functions.size();
  (void)Asked.resize<float>("functions", {int64_t(Count), int64_t(featureNames().size())});
  (void)Asked.set("functions", About.Values);
  (void)Asked.set("goal", int64_t(Given.Goal));
  const Signature *const Known = Policy.modelSignature();
  const bool WantsNames = !Known || Known->findInput("names") >= 0;
  std::vector<std::string> Names(Count);
  for (size_t Row = 0; WantsNames && Row < Count; ++Row)
    Names[Row] = nameOf(*About.Functions[Row]);
  (void)Asked.set("names", Names);
  if (Status Begun = Asked.beginEpisode("", M.getSourceFileName()); !Begun)
    return Begun;
  const Status Evaluated = Asked.evaluate();
  (void)Asked.endEpisode(Evaluated);
  if (!Evaluated)
    return Evaluated;
  const Span<const int64_t> Answers = Asked.output<int64_t>("sizes");
  if (Answers.size() != Count)
    return Status(Code::PolicyFailed, "sizes has " + std::to_string(Answers.size()) +
                                          " elements; expected one for each of " +
                                          std::to_string(Count) + " functions");
  Decisions Made(Count);
  for (size_t Row = 0; Row < Count; ++Row) {
    if (Answers[Row] < 0 || Answers[Row] > int64_t(For::SmallestSize))
      return Status(Code::PolicyFailed, "sizes[" + std::to_string(Row) + "] is " +
                                            std::to_string(Answers[Row]) + "; expected 0, 1 or 2");
    Made[Row] = For(Answers[Row]);
  }
  return Made;
}

class HotnessPass : public PassInfoMixin<HotnessPass> {
public:
  /// Without a level, it acts at any. `HasProfile`: LLVM decides by a profile, or counts for one.
  explicit HotnessPass(StringRef Level, bool HasProfile = false)
      : Level(Level), HasProfile(HasProfile) {}

  PreservedAnalyses run(Module &M, ModuleAnalysisManager &) {
    const mlbridge::Expected<Options> Read = readOptions();
    if (!Read) {
      plugin::Settings Refused;
      Refused.Prefix = Name;
      Refused.refuse(M.getContext(), Read.status());
      return PreservedAnalyses::all();
    }
    return decide(*Read, M) ? PreservedAnalyses::none() : PreservedAnalyses::all();
  }
  static bool isRequired() { return true; }

private:
  /// True if something is compiled for size that wasn't, or the reverse.
  bool decide(const Options &Given, Module &M) const {
    if (none_of(M, [&](const llvm::Function &F) { return isOurs(Given, F); }))
      return false;
    if (const StringRef Why = whyLeftAlone(M, HasProfile); !Why.empty()) {
      remark<OptimizationRemarkMissed>(*firstBody(M), "LeftAlone",
                                       ("the module is left as it is: " + Why).str());
      return false;
    }
    const Description About(M);
    const auto Decided = ask(Given, M, About);
    if (!Decided) {
      Given.giveUp(M.getContext(), Decided.status(), "all functions are compiled as without");
      return false;
    }
    const Eligible Who(M);
    bool Changed = false;
    for (const auto &[F, For] : zip(About.Functions, *Decided))
      if (isOurs(Given, *F))
        Changed |= apply(Who, *F, For);
    return Changed;
  }

  bool isOurs(const Options &Given, const llvm::Function &F) const {
    if (F.isDeclaration() || F.hasOptNone())
      return false;
    return Level.empty() || Given.wants(F.hasFnAttribute(Mark) ? Level : plugin::levelOf(F, Level));
  }

  static const llvm::Function *firstBody(const Module &M) {
    for (const llvm::Function &F : M)
      if (!F.isDeclaration())
        return &F;
    return nullptr;
  }

  template <class Kind>
  static void remark(const llvm::Function &F, StringRef Id, const std::string &Text) {
    OptimizationRemarkEmitter(&F).emit(
        [&] { return Kind(Name, Id, F.getSubprogram(), &F.getEntryBlock()) << Text; });
  }

  static bool apply(const Eligible &Who, llvm::Function &F, For Decided) {
    const bool Was = F.hasFnAttribute(Mark);
    if (Was) {
      F.removeFnAttr(Mark);
      F.removeFnAttr(Attribute::MinSize);
      F.removeFnAttr(Attribute::OptimizeForSize);
    }
    if (Decided == For::Speed) {
      remark<OptimizationRemarkAnalysis>(F, "Hot", "compiled for speed, as without");
      return Was;
    }
    if (const StringRef Why = Who.whyNot(F); !Why.empty()) {
      remark<OptimizationRemarkMissed>(F, "LeftAlone", ("left as it is: " + Why).str());
      return Was;
    }
    F.addFnAttr(Mark);
    F.addFnAttr(Attribute::OptimizeForSize);
    if (Decided == For::SmallestSize)
      F.addFnAttr(Attribute::MinSize);
    remark<OptimizationRemark>(F, Decided == For::Size ? "Size" : "SmallestSize",
                               Decided == For::Size ? "compiled for size, as at -Os"
                                                    : "compiled for the smallest size, as at -Oz");
    return true;
  }

  const std::string Level;
  const bool HasProfile;
};

void addTo(PassBuilder &Builder) {
  registerModels();
  Builder.registerPipelineParsingCallback(
      [](StringRef Given, ModulePassManager &To, ArrayRef<PassBuilder::PipelineElement>) {
        if (Given != "mlbridge-hotness")
          return false;
        To.addPass(HotnessPass(""));
        return true;
      });
  if (!ModelFlags.given())
    return;
  const auto Add = [HasProfile = plugin::hasProfile(Builder)](ModulePassManager &To,
                                                              OptimizationLevel Level, auto...) {
    if (Level != OptimizationLevel::O0)
      To.addPass(HotnessPass(plugin::nameOf(Level), HasProfile));
  };
  // Values are in registers here, so that what a function does is seen, but nothing is inlined.
  Builder.registerPipelineEarlySimplificationEPCallback(Add);
  Builder.registerFullLinkTimeOptimizationEarlyEPCallback(Add);
}

} // namespace

} // namespace mlbridge::hotness

extern "C" [[gnu::visibility("default")]] PassPluginLibraryInfo llvmGetPassPluginInfo() {
  return {LLVM_PLUGIN_API_VERSION, "Hotness", "1", mlbridge::hotness::addTo};
}
