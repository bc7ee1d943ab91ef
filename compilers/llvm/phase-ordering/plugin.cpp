// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The pass: asks a model for the groups to run on a module, or compares candidates.
//   clang-22 -Oz -Xclang -fpass-plugin=mlbridge-phase-ordering.so -Xclang -mllvm
//     -Xclang -phase-ordering-model=URI
//   opt-22 -load-pass-plugin mlbridge-phase-ordering.so -passes=phase-ordering
//     -phase-ordering-model=URI
#include "ask.h"
#include "candidate_options.h"
#include "comparison.h"
#include "environment.h"
#include "link_command.h"
#include "middle_end.h"
#include "models.h"
#include "nooutline_hot.h"
#include "options.h"
#include "remarks.h"
#include "selection_log.h"
#include "served_environment.h"

#include "plugin/flags.h"
#include "trials/trial_process.h"
#include "versions/pass_plugin.h"
#include "versions/target_triple.h"

#include "llvm/Config/llvm-config.h"
#include "llvm/Support/CommandLine.h"
#include "llvm/Support/MemoryBuffer.h"

using namespace llvm;

namespace mlbridge::phase_ordering {

/// If the inliner's plugin is loaded as well, what its model does is one more candidate; the stock
/// pipeline and the other candidates are without it.
static void addInliner(std::vector<Candidate> &Candidates, StringRef Level) {
  cl::Option *Compared = findOption("inliner-compared");
  if (!Compared)
    return;
  if (!Compared->getNumOccurrences())
    Compared->addOccurrence(1, Compared->ArgStr, "true");
  Candidates.insert(Candidates.begin(),
                    {"inliner", {("default<" + Level + ">").str()}, false, {"inliner-candidate"}});
}

/// The reason for which no candidate can be tried in this process; empty if one can.
static std::string whyNoRuns(const Pipeline &Begins) {
  const cl::Option *Dumps = findOption("ir-dump-directory");
  if (Dumps && Dumps->getNumOccurrences())
    return "with -ir-dump-directory passes write files";
  return Begins.isLink() ? whyNoCode(Begins) : trial::whyNot();
}

/// The number after a key in a file of /proc, or 0.
static uint64_t readNumber(StringRef File, StringRef Key) {
  const ErrorOr<std::unique_ptr<MemoryBuffer>> Text = MemoryBuffer::getFileAsStream(File);
  uint64_t Number = 0;
  if (!Text)
    return 0;
  StringRef Rest = (*Text)->getBuffer().split(Key).second.ltrim();
  return Rest.consumeInteger(10, Number) ? 0 : Number;
}

/// In a link, whose process may be large: the reason for which there is no room for others.
static std::string whyNoRoom() {
  const uint64_t Resident = readNumber("/proc/self/status", "VmRSS:"),
                 Available = readNumber("/proc/meminfo", "MemAvailable:");
  // Two candidates at a time; what nobody changes is shared.
  if (!Resident || !Available || Available / 2 > Resident)
    return "";
  return "this link has " + std::to_string(Resident / 1024) + " MB, and " +
         std::to_string(Available / 1024) +
         " MB are left, too few for candidates, so it may not be reproducible";
}

/// In a link, where the assembly of a candidate is assembled: the reason for which that would not
/// be what the code generator writes. RISC-V and LoongArch mark code that the linker may relax, and
/// their files say which extensions functions use.
static std::string whyNoAssembly(const Module &M) {
  const Triple Target = versions::tripleOf(M);
  if (Target.isX86() || Target.isAArch64() || Target.isARM() || Target.isThumb())
    return "";
  return ("candidates of links are for x86, Arm and AArch64, not for " + Target.getArchName())
      .str();
}

/// Asks the model about a module that it may change. The pipeline has no level where the pass was
/// named itself. Returns as choosePasses does.
static bool optimize(const Options &Given, Module &M, ModuleAnalysisManager &MAM,
                     const Pipeline &Begins) {
  const bool Compares = Given.Effort && !Begins.Level.empty();
  if (Compares) {
    std::string Why = whyNoRuns(Begins);
    if (Why.empty() && Begins.isLink())
      Why = whyNoAssembly(M);
    if (!Why.empty()) {
      remarkLeftAlone(M, Why + ", so no candidate is tried");
      return false;
    }
  }
  if (const std::string Why = Begins.isLink() ? whyNoRoom() : ""; !Why.empty()) {
    Given.giveUpOn(M, Why);
    return false;
  }
  if (Given.Model.empty()) {
    Given.giveUpOn(M, Given.checkModel().message());
    return false;
  }
  Advice Answer = ask(Given, M, MAM, Compares);
  if (Answer.IsApplied || Answer.Candidates.empty())
    return Answer.IsApplied;
  if (!Compares) {
    Given.giveUpOn(M, Given.Model +
                          " has candidates, which are compared in a default pipeline with "
                          "-phase-ordering-effort=1 or more");
    return false;
  }
  const Triple Target = versions::tripleOf(M);
  erase_if(Answer.Candidates, [&Target](const Candidate &One) {
    return One.Target != Triple::UnknownArch && One.Target != Target.getArch();
  });
  if (Answer.Candidates.empty()) {
    remarkLeftAlone(M, ("no candidate is for " + Target.getArchName()).str());
    return false;
  }
  if (Answer.Candidates.size() > Given.Effort)
    Answer.Candidates.resize(Given.Effort);
  addInliner(Answer.Candidates, Begins.Level);
  return startComparison(M, MAM, std::move(Answer.Candidates), Begins.isLink(),
                         [Given](Module &Compared, const Selection &Result) {
                           remarkSelection(Given, Compared, Result);
                           logSelection(Given, Compared, Result);
                         });
}

/// True if the module has been optimized as the model says. Otherwise it is as it was, and one
/// diagnostic says why: a remark where there was nothing to decide. Or candidates are being
/// compared, and the host goes on with its own passes. Without a level it asks the model whatever
/// the levels. Several modules at once, in as many threads, do not disturb each other.
static bool choosePasses(Module &M, ModuleAnalysisManager &MAM, const Pipeline &Begins) {
  const StringRef Level = Begins.Level;
  const std::optional<Options> Given = readOptions(M.getContext());
  if (!Given)
    return false;
  if (Given->Serves) {
    if (const Status End = serveEpisodes(*Given, M, MAM); !End)
      Given->giveUpOn(M, Given->describe(End));
    return false;
  }
  if (!firstDefinition(M))
    return false;
  if (!Level.empty() && !Given->wants(Level)) {
    std::string Why = "-" + Level.str() + " is not one of the levels " + Given->Levels +
                      " (-phase-ordering-levels)";
    if (Begins.isLink())
      Why += ", as less than 95 % of the code was compiled at -Oz or -Os";
    remarkLeftAlone(M, Why);
    return false;
  }
  if (const std::string Why = untouchable(M); !Why.empty()) {
    if (Level.empty())
      Given->giveUpOn(M, Why);
    else
      remarkLeftAlone(M, Why);
    return false;
  }
  return optimize(*Given, M, MAM, Begins);
}

/// LLVM 19 doesn't tell where a linker's pipeline ends.
static constexpr bool IsLinkLeftAlone = LLVM_VERSION_MAJOR < 22;

/// For a pipeline of the host's own: where it is not for a model, one remark says why.
static bool replacePasses(Module &M, ModuleAnalysisManager &MAM, const Pipeline &Begins) {
  forgetLastModule();
  plugin::OptionsOfModule::forget();
  if (Begins.isBeforeLink() || (Begins.isLink() && IsLinkLeftAlone)) {
    if (!IsLinkLeftAlone)
      plugin::OptionsOfModule::write(M, "phase-ordering");
    remarkLeftAlone(M, "with -flto the linker optimizes");
    return false;
  }
  if (Begins.Level == "O0") {
    remarkLeftAlone(M, "-O0 optimizes nothing");
    return false;
  }
  if (!Begins.isLink())
    return choosePasses(M, MAM, Begins);
  if (!plugin::OptionsOfModule::read(M, "phase-ordering")) {
    remarkLeftAlone(M, "its files were compiled with different options of phase ordering");
    return false;
  }
  if (!hasModel()) {
    remarkLeftAlone(M, "none of its files was compiled for a model");
    return false;
  }
  if (!isModelSafe()) {
    if (const std::optional<Options> Given = readOptions(M.getContext()))
      Given->giveUpOn(M, "a model that loads code must be named by the link itself, with "
                         "MLBRIDGE_PHASE_ORDERING_MODEL");
    return false;
  }
  return choosePasses(M, MAM, Begins);
}

namespace {

/// For opt's -passes=phase-ordering.
class PhaseOrderingPass : public PassInfoMixin<PhaseOrderingPass> {
public:
  PreservedAnalyses run(Module &M, ModuleAnalysisManager &MAM) {
    plugin::OptionsOfModule::forget();
    return choosePasses(M, MAM, Pipeline()) ? PreservedAnalyses::none() : PreservedAnalyses::all();
  }
  static bool isRequired() { return true; }
};

} // namespace

static void registerCallbacks(PassBuilder &PB) {
  registerModels();
  registerComparison(PB);
  replaceMiddleEnd(PB, replacePasses);
  NoOutlineHot::registerIn(PB);
  PB.registerPipelineParsingCallback(
      [](StringRef Name, ModulePassManager &MPM, ArrayRef<PassBuilder::PipelineElement>) {
        if (Name != "phase-ordering")
          return false;
        MPM.addPass(PhaseOrderingPass());
        return true;
      });
}

} // namespace mlbridge::phase_ordering

extern "C" [[gnu::visibility("default")]] PassPluginLibraryInfo llvmGetPassPluginInfo() {
  return {LLVM_PLUGIN_API_VERSION, "PhaseOrdering", "1",
          mlbridge::phase_ordering::registerCallbacks};
}
