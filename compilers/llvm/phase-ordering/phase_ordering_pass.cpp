// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The pass: asks a model for the groups to run on a module, and reports what came of it.
//   clang-22 -Oz -Xclang -fpass-plugin=mlbridge-phase-ordering.so -Xclang -mllvm
//     -Xclang -phase-ordering-model=URI
//   opt-22 -load-pass-plugin mlbridge-phase-ordering.so -passes=phase-ordering
//     -phase-ordering-model=URI
#include "environment.h"
#include "middle_end.h"

#include "plugin/diagnostic.h"
#include "trials/trial_process.h"
#include "versions/pass_plugin.h"

#include <mlbridge/model.h>
#include <mlbridge/server.h>
#include <mlbridge/uri.h>

#include "llvm/ADT/StringExtras.h"
#include "llvm/Analysis/OptimizationRemarkEmitter.h"
#include "llvm/IR/LLVMContext.h"
#include "llvm/IR/LLVMRemarkStreamer.h"
#include "llvm/Support/CommandLine.h"
#include "llvm/Support/MemoryBuffer.h"

using namespace llvm;

static cl::opt<std::string> ModelUriOption("phase-ordering-model", cl::value_desc("URI"),
                                           cl::desc("The model that chooses the passes"));
static cl::opt<std::string> ServeUriOption(
    "phase-ordering-serve", cl::value_desc("URI"),
    cl::desc("For training: wait at this address for a driver that resets and steps the pass"));
static cl::opt<std::string>
    ActionsOption("phase-ordering-actions", cl::value_desc("FILE"),
                  cl::desc("With -phase-ordering-serve: the groups of passes, as JSON"));
static cl::opt<std::string>
    ObservationOption("phase-ordering-observation", cl::init("counts"), cl::value_desc("KIND"),
                      cl::desc("With -phase-ordering-serve: what is observed"));
static cl::opt<std::string>
    VocabularyOption("phase-ordering-vocabulary", cl::value_desc("FILE"),
                     cl::desc("The vocabulary for IR2Vec instead of the built-in one"));
static cl::opt<bool> KeepStatesOption("phase-ordering-keep-states",
                                      cl::desc("With -phase-ordering-serve: an episode can begin "
                                               "in a state of the last one"));
static cl::opt<std::string> StateOption(
    "phase-ordering-state", cl::value_desc("FILE"),
    cl::desc("With -phase-ordering-serve: write the module as it is there before each reply"));
static cl::opt<unsigned>
    MaxStepsOption("phase-ordering-max-steps", cl::value_desc("N"),
                   cl::desc("The maximum number of groups of passes to run on a module"));
static cl::opt<std::string>
    DeadlineOption("phase-ordering-deadline", cl::init("5s"), cl::value_desc("TIME"),
                   cl::desc("The longest wait for the model: 5s, 250ms, or a "
                            "number of seconds"));
static cl::opt<std::string> OnFailureOption("phase-ordering-on-failure", cl::init("stock"),
                                            cl::value_desc("stock|fail"),
                                            cl::desc("If the model fails: the usual passes and a "
                                                     "warning, or an error"));
static cl::opt<std::string>
    LogFolderOption("phase-ordering-log", cl::value_desc("DIR"),
                    cl::desc("Write how candidates were compared, or why the model failed, to a "
                             "file in this folder"));
static cl::opt<unsigned>
    EffortOption("phase-ordering-effort", cl::value_desc("N"),
                 cl::desc("How many candidates are compared with the usual passes, whose code is "
                          "kept unless theirs is smaller; 0: the model is believed"));
static cl::opt<std::string>
    FingerprintOption("phase-ordering-fingerprint", cl::value_desc("HASH"),
                      cl::desc("Ignored: of plugin and model, for compiler caches"));
static cl::opt<std::string> LevelsOption("phase-ordering-levels", cl::init("Os,Oz"),
                                         cl::value_desc("LIST"),
                                         cl::desc("The -O levels at which the model is asked"));

namespace mlbridge::phase_ordering {

static Status wrong(const char *Option, const std::string &Want, const std::string &Got) {
  return Status(Code::InvalidArgument, std::string("-phase-ordering-") + Option + ": expected " +
                                           Want + ", got '" + Got + "'");
}

/// Options that make no sense are errors that name them.
static Status checkOptions() {
  if (!ServeUriOption.empty() && !ModelUriOption.empty())
    return Status(Code::InvalidArgument,
                  "-phase-ordering-serve and -phase-ordering-model cannot be given together");
  if (!ActionsOption.empty() && ServeUriOption.empty())
    return Status(Code::InvalidArgument, "-phase-ordering-actions is for -phase-ordering-serve; "
                                         "a model has the groups in its metadata");
  if (StateOption.getNumOccurrences() && ServeUriOption.empty())
    return Status(Code::InvalidArgument, "-phase-ordering-state is for -phase-ordering-serve");
  if (ObservationOption != "counts" && ServeUriOption.empty())
    return Status(Code::InvalidArgument, "-phase-ordering-observation is for "
                                         "-phase-ordering-serve; a model says it in its metadata");
  const ObservationKind *Kind = findObservation(ObservationOption);
  if (!Kind || ObservationOption != Kind->Name)
    return wrong("observation", "counts, ir2vec or ir2vec-symbolic", ObservationOption);
  if (MaxStepsOption.getNumOccurrences() && MaxStepsOption == 0)
    return wrong("max-steps", "1 or more", "0");
  if (OnFailureOption != "stock" && OnFailureOption != "fail")
    return wrong("on-failure", "stock or fail", OnFailureOption);
  const mlbridge::Expected<Duration> Deadline = parseDuration(DeadlineOption);
  if (!Deadline || Deadline->count() <= 0)
    return wrong("deadline", "a time such as 5s, 250ms or a number of seconds", DeadlineOption);
  for (StringRef Level : split(LevelsOption, ','))
    if (!is_contained({"O1", "O2", "O3", "Os", "Oz"}, Level))
      return wrong("levels", "O1, O2, O3, Os, Oz, or several with commas between", LevelsOption);
  return Status();
}

static void report(Module &M, DiagnosticSeverity Severity, const std::string &Message) {
  M.getContext().diagnose(plugin::PluginDiagnostic(Severity, "phase-ordering: " + Message));
}

static void giveUp(Module &M, const std::string &Why) {
  if (OnFailureOption == "fail")
    report(M, DS_Error, Why);
  else
    report(M, DS_Warning, Why + "; the module is left to the usual passes");
}

/// What failed with the model or environment there, unless it says that itself.
static std::string at(const std::string &Uri, const mlbridge::Status &Why) {
  const bool Said = Why.message().find(Uri) != std::string::npos;
  return (Said ? std::string() : Uri + ": ") + Why.toString();
}

static const Function *firstDefinition(const Module &M) {
  for (const Function &F : M)
    if (!F.isDeclaration())
      return &F;
  return nullptr;
}

static constexpr const char *Name = "phase-ordering";

/// A remark that the module is left to the usual passes, and why.
static void leaveAlone(Module &M, StringRef Why) {
  const Function *F = firstDefinition(M);
  if (!F)
    return;
  LLVMContext &Context = M.getContext();
  const auto Say = [&](DiagnosticInfoOptimizationBase &&Remark) {
    Remark << "left to the usual passes: " << ore::NV("Reason", Why);
    Context.diagnose(Remark);
  };
  // -Rpass alone shows it, too: whoever asks what was done learns that nothing was.
  if (Context.getDiagHandlerPtr()->isPassedOptRemarkEnabled(Name))
    Say(OptimizationRemark(Name, "LeftAlone", F));
  else
    Say(OptimizationRemarkMissed(Name, "LeftAlone", F));
}

static void remark(const Module &M, ArrayRef<Decision> Decisions) {
  LLVMContext &Context = M.getContext();
  const Function *F = firstDefinition(M);
  if (!F || !(Context.getLLVMRemarkStreamer() ||
              Context.getDiagHandlerPtr()->isPassedOptRemarkEnabled(Name)))
    return;
  for (const auto &[Step, D] : enumerate(Decisions)) {
    OptimizationRemark Remark(Name, "Decision", F);
    Remark << "step " << ore::NV("Step", unsigned(Step)) << ": " << ore::NV("Group", D.Name)
           << " (action " << ore::NV("Action", unsigned(D.Action)) << ") at "
           << ore::NV("Instructions", unsigned(D.Instructions)) << " instructions";
    Context.diagnose(Remark);
  }
}

/// Lets a driver play episodes until it leaves. Returns why that was not possible.
static Status serveEpisodes(Module &M, ModuleAnalysisManager &MAM) {
  ServedOptions Choice;
  Choice.MaxSteps = MaxStepsOption;
  Choice.ActionsJson = ActionList::builtin().str();
  Choice.KeepStates = KeepStatesOption;
  Choice.StateFile = StateOption;
  if (!ActionsOption.empty()) {
    ErrorOr<std::unique_ptr<MemoryBuffer>> Read = MemoryBuffer::getFile(ActionsOption);
    if (!Read)
      return Status(Code::NotFound,
                    "-phase-ordering-actions=" + ActionsOption + ": " + Read.getError().message());
    Choice.ActionsJson = (*Read)->getBuffer().str();
  }
  mlbridge::Expected<Observer> Of =
      Observer::make(*findObservation(ObservationOption), VocabularyOption);
  if (!Of)
    return Of.status();
  Choice.Of = std::move(*Of);
  ServedEnvironment Environment(M, MAM, std::move(Choice));
  if (!Environment.status())
    return Environment.status();
  ServerOptions Options;
  Options.signature = Environment.signature();
  Options.metadata = Environment.metadata();
  Options.environment = true;
  mlbridge::Expected<Server> At = Server::listen(ServeUriOption, std::move(Options));
  if (!At)
    return At.status();
  return mlbridge::serve(Environment, *At).status;
}

static void log(Module &M, const Selection &Its) {
  if (LogFolderOption.empty())
    return;
  if (Error E = writeSelection(LogFolderOption, M.getSourceFileName(), ModelUriOption, Its))
    report(M, DS_Warning, "log: " + llvm::toString(std::move(E)));
}

/// What the model makes of the module.
struct Advice {
  bool Taken = false; ///< the module has been optimized
  std::vector<Candidate> Candidates;
};

/// Runs one episode. With `Try` it touches nothing, and gives what may be tried.
static Advice ask(Module &M, ModuleAnalysisManager &MAM, bool Try) {
  PhaseOrderingEnvironment Environment(M, MAM, MaxStepsOption, VocabularyOption);
  OpenOptions Opening;
  Opening.deadline = *parseDuration(DeadlineOption); // checkOptions has accepted it
  Opening.sharedBudget = true;
  Opening.context = M.getSourceFileName();

  // [three-lines]
  mlbridge::Model Policy = mlbridge::Model::open(ModelUriOption, Opening);
  mlbridge::Status Bound = Policy.bind(Environment.signatureFor(Policy));
  mlbridge::EpisodeResult Result = mlbridge::run(Environment, Policy);
  // [/three-lines]

  // The first of the causes; what follows from it says less.
  Status End = Result.status;
  if (!Policy.status() && Bound)
    End = Policy.status();
  else if (!Environment.status())
    End = Environment.status();
  else if (!Bound)
    End = Bound;

  Advice Its;
  if (!End) {
    giveUp(M, at(ModelUriOption, End));
    Selection Failure;
    Failure.Problem = End.toString();
    log(M, Failure);
  } else if (Its.Candidates = Environment.ranked(); !Its.Candidates.empty()) {
    // the caller's choice
  } else if (Try) {
    Its.Candidates.push_back(Environment.asCandidate());
  } else {
    Environment.commit();
    Its.Taken = true;
  }
  if (End)
    remark(M, Environment.decisions());
  return Its;
}

static void say(Module &M, const Selection &Its) {
  if (!Its.Problem.empty())
    giveUp(M, Its.Problem);
  const Function *F = firstDefinition(M);
  if (!F || !Its.Problem.empty() || !Its.Stock.Bytes)
    return;
  OptimizationRemark Remark(Name, Its.Winner ? "Smaller" : "StockKept", F);
  if (Its.Winner)
    Remark << ore::NV("Candidate", Its.Candidates[*Its.Winner].Name) << ": "
           << ore::NV("Bytes", Its.Trials[*Its.Winner].Bytes) << " bytes of code instead of "
           << ore::NV("StockBytes", Its.Stock.Bytes);
  else
    Remark << "the usual passes: " << ore::NV("StockBytes", Its.Stock.Bytes)
           << " bytes of code, no candidate is smaller";
  M.getContext().diagnose(Remark);
}

/// If the inliner's plugin is loaded as well, what its model does is one more candidate; the stock
/// pipeline and the other candidates are without it.
static void compareInliner(std::vector<Candidate> &Candidates, StringRef Level) {
  cl::Option *Compared = findOption("inliner-compared");
  if (!Compared)
    return;
  if (!Compared->getNumOccurrences())
    Compared->addOccurrence(1, Compared->ArgStr, "true");
  Candidates.insert(Candidates.begin(),
                    {"inliner", {("default<" + Level + ">").str()}, false, {"inliner-candidate"}});
}

/// Why no candidate can be tried in this process; empty if it can.
static std::string whyNoTrials() {
  const cl::Option *Dumps = findOption("ir-dump-directory");
  if (Dumps && Dumps->getNumOccurrences())
    return "with -ir-dump-directory passes write files";
  return trial::whyNot();
}

/// True if the module now is what the model made of it. Otherwise it is as it was, and one
/// diagnostic says why: a remark where there was nothing to decide. Or trials have been started,
/// and the host goes on with its own passes. `Level` is that of the pipeline ("Oz"), or empty where
/// the pass was named itself, which asks the model whatever the levels. Several modules at once, in
/// as many threads, do not disturb each other.
static bool choosePasses(Module &M, ModuleAnalysisManager &MAM, StringRef Level) {
  if (const Status Options = checkOptions(); !Options) {
    report(M, DS_Error, Options.message());
    return false;
  }
  if (!ServeUriOption.empty()) {
    if (const Status Served = serveEpisodes(M, MAM); !Served)
      giveUp(M, at(ServeUriOption, Served));
    return false;
  }
  if (!firstDefinition(M))
    return false;
  if (!Level.empty() && !is_contained(split(LevelsOption, ','), Level)) {
    leaveAlone(M, "-" + Level.str() + " is not one of the levels " + LevelsOption +
                      " (-phase-ordering-levels)");
    return false;
  }
  if (const std::string Why = untouchable(M); !Why.empty()) {
    if (Level.empty())
      giveUp(M, Why);
    else
      leaveAlone(M, Why);
    return false;
  }
  const bool Try = EffortOption && !Level.empty();
  if (Try)
    if (const std::string Why = whyNoTrials(); !Why.empty()) {
      leaveAlone(M, Why + ", so no candidate is tried");
      return false;
    }
  if (ModelUriOption.empty()) {
    giveUp(M, "no model was given (-phase-ordering-model=URI)");
    return false;
  }
  Advice Its = ask(M, MAM, Try);
  if (Its.Taken || Its.Candidates.empty())
    return Its.Taken;
  if (!Try) {
    giveUp(M, ModelUriOption + " has candidates, which are compared in a default pipeline with "
                               "-phase-ordering-effort=1 or more");
    return false;
  }
  if (Its.Candidates.size() > EffortOption)
    Its.Candidates.resize(EffortOption);
  compareInliner(Its.Candidates, Level);
  const auto Report = [](Module &Now, const Selection &How) {
    say(Now, How);
    log(Now, How);
  };
  return startTrials(M, MAM, std::move(Its.Candidates), Report);
}

namespace {

/// For opt's -passes=phase-ordering.
class PhaseOrderingPass : public PassInfoMixin<PhaseOrderingPass> {
public:
  PreservedAnalyses run(Module &M, ModuleAnalysisManager &MAM) {
    return choosePasses(M, MAM, "") ? PreservedAnalyses::none() : PreservedAnalyses::all();
  }
  static bool isRequired() { return true; }
};

} // namespace

static void registerCallbacks(PassBuilder &PB) {
  registerModels();
  registerTrials(PB);
  replaceMiddleEnd(
      PB,
      [](Module &M, ModuleAnalysisManager &MAM, StringRef Level) {
        forgetLastModule();
        return choosePasses(M, MAM, Level);
      },
      [](Module &M, StringRef Why) {
        forgetLastModule();
        leaveAlone(M, Why);
      });
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
