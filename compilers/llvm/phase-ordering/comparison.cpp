// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// One process, a nursery, keeps the module as it was and forks another for each candidate. Each of
// these goes on as the compiler would, up to code generation, where it measures and ends. The
// compiler itself meanwhile runs the stock pipeline. At code generation a second nursery measures
// that, and the candidates that continue it; then the compiler takes the best.
#include "comparison.h"

#include "actions.h"
#include "candidate_options.h"
#include "code_size.h"
#include "middle_end.h"
#include "nooutline_hot.h"
#include "working_copy.h"

#include "trials/race.h"
#include "versions/code_generation.h"
#include "versions/plugin_inline_advisor.h"
#include "versions/target_triple.h"

#include "llvm/ADT/ScopeExit.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/Analysis/TargetLibraryInfo.h"
#include "llvm/Bitcode/BitcodeReader.h"
#include "llvm/Bitcode/BitcodeWriter.h"
#include "llvm/IR/DiagnosticHandler.h"
#include "llvm/IR/DiagnosticInfo.h"
#include "llvm/IR/LLVMContext.h"
#include "llvm/IR/ValueHandle.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Target/TargetMachine.h"

#include <csignal>
#include <mutex>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

using namespace llvm;

namespace mlbridge::phase_ordering {

/// The number of candidates that a nursery tries at a time.
static constexpr size_t RunsAtOnce = 2;

/// The processor's time that this process has used.
static double seconds() {
  timespec Now{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &Now);
  return double(Now.tv_sec) + double(Now.tv_nsec) * 1e-9;
}

/// The number of passes that a candidate may run: some hundred times those of a stock pipeline,
/// which runs about 100 on each function.
static uint64_t passLimit(const Module &M) {
  uint64_t Limit = 100000;
  for (const llvm::Function &F : M)
    Limit += F.isDeclaration() ? 0 : 1000 + 100 * F.size();
  return Limit;
}

/// The longest time that a candidate may take. Modules of a link are as large as programs.
static std::chrono::seconds timeLimit(const Module &M, bool IsLink) {
  return trial::Longest + std::chrono::seconds(IsLink ? M.getInstructionCount() / 1000 : 0);
}

/// Sets up once, while no other process is forked, what LLVM sets up when it is first asked: what
/// another thread is just setting up never becomes ready in a child.
static void initializeLlvm(const Module &M) {
  static std::once_flag Once;
  std::call_once(Once, [&M] {
    Module Empty(M.getModuleIdentifier(), M.getContext());
    Empty.setTargetTriple(M.getTargetTriple());
    Empty.setDataLayout(M.getDataLayout());
    consumeError(measureCode(Empty, nullptr).takeError());
    LibFunc Known{};
    TargetLibraryInfoImpl(versions::tripleOf(M)).getLibFunc("malloc", Known);
  });
}

/// Passes that write files of their own, or that must see the same code in another compilation.
static bool needsStockCode(StringRef Pass) {
  static const StringSet<> Names = {"GCOVProfilerPass",        "PGOInstrumentationGen",
                                    "PGOInstrumentationUse",   "PGOInstrumentationGenCreateVar",
                                    "SampleProfileLoaderPass", "MemProfUsePass"};
  return Names.contains(Pass);
}

static bool writesModule(StringRef Pass) {
  return Pass == "BitcodeWriterPass" || Pass == "PrintModulePass" || Pass == "EmbedBitcodePass";
}

namespace {

/// The comparison of one module's candidates, as the host, the nurseries and the runs see it.
class Comparison {
public:
  Comparison(Module &M, ModuleAnalysisManager &MAM, std::vector<Candidate> Candidates, bool IsLink,
             Selected Report);
  ~Comparison();
  Comparison(const Comparison &) = delete;
  Comparison &operator=(const Comparison &) = delete;

  /// Makes the nursery. True in the process of a run, whose candidate has then run on the module.
  bool start();
  /// Before each pass of the pipeline of a host.
  void beforePass(StringRef Pass);
  /// The middle end is done. `TM`: what generates code next, or null.
  void decide(TargetMachine *TM);
  bool isDecided() const { return Decided; }
  bool isAbout(const Module &Other) const { return &M == &Other; }
  /// Forgets the host's analyses of the module, if it is still there.
  void forgetAnalyses() {
    if (isModuleThere())
      MAM.clear(M, M.getName());
  }

private:
  void closeFiles();
  std::vector<size_t> candidates(bool AfterStock) const;
  size_t stock() const { return Result.Candidates.size(); }
  void nurse(ArrayRef<size_t> Runs);
  void setOptions();
  void run();
  void continueStock(TargetMachine *TM);
  [[noreturn]] void finishAssembly(TargetMachine &TM);
  void countPass();
  [[noreturn]] void end(RunEnd How, uint64_t Bytes = 0);
  [[noreturn]] void finish(TargetMachine *TM);
  void silence();
  [[noreturn]] void measure(Module &Code, TargetMachine *TM);
  void compare(TargetMachine *TM);
  std::unique_ptr<Module> madeBy(size_t Index, bool AsAssembly);
  std::string limit() const;
  std::string problem() const;
  bool isModuleThere() const;

  Module &M;
  ModuleAnalysisManager &MAM;
  const bool IsLink;
  const std::chrono::seconds Limit; ///< for each run
  Selected Report;
  Selection Result;
  std::vector<WeakVH> Functions;
  trial::SharedArray<CandidateRun> Shared; ///< of the candidates, and last of the stock pipeline
  std::vector<int> Files; ///< the bitcode, in a link the assembly, that each candidate makes
  trial::Child Nursery;
  std::optional<size_t> Own; ///< the number of the run, in its process
  uint64_t PassesLeft = 0;
  double Began = 0; ///< seconds() when passes began, then when measuring did
  double PassSeconds = 0;
  bool Decided = false;
};

thread_local std::unique_ptr<Comparison> Current;
thread_local OptionsInForce InForce;

Comparison::Comparison(Module &M, ModuleAnalysisManager &MAM, std::vector<Candidate> Candidates,
                       bool IsLink, Selected Report)
    : M(M), MAM(MAM), IsLink(IsLink), Limit(timeLimit(M, IsLink)), Report(std::move(Report)) {
  Result.IsLink = IsLink;
  Result.Candidates = std::move(Candidates);
  Result.Runs.resize(Result.Candidates.size());
  for (llvm::Function &F : M)
    if (!F.isDeclaration())
      Functions.emplace_back(&F);
}

Comparison::~Comparison() {
  Nursery.end();
  closeFiles();
}

void Comparison::closeFiles() {
  for (const int File : Files)
    close(File);
  Files.clear();
}

bool Comparison::start() {
  Began = seconds();
  const size_t Count = Result.Candidates.size();
  if (!Shared.allocate(Count + 1)) {
    Result.Problem = std::string("no memory to share: ") + strerror(errno);
    return false;
  }
  for (size_t I = 0; I < Count; ++I) {
    Files.push_back(memfd_create("mlbridge-candidate", MFD_CLOEXEC));
    if (Files.back() < 0) {
      Result.Problem = std::string("no memory for candidates: ") + strerror(errno);
      Files.pop_back();
      closeFiles(); // the compiler may need what is left
      return false;
    }
  }
  const std::vector<size_t> Early = candidates(/*AfterStock=*/false);
  if (Early.empty())
    return false;
  if (!Nursery.fork()) {
    if (Nursery.Id < 0)
      Result.Problem = std::string("no process for candidates: ") + strerror(errno);
    return false;
  }
  trial::isolate(Files);
  nurse(Early);
  run();
  return true;
}

std::vector<size_t> Comparison::candidates(bool AfterStock) const {
  std::vector<size_t> Numbers;
  for (size_t I = 0; I < stock(); ++I)
    if (Result.Candidates[I].AfterStock == AfterStock)
      Numbers.push_back(I);
  return Numbers;
}

/// How a run ended that has said nothing.
static RunEnd endOf(trial::Race::End How) {
  if (How.IsLate)
    return RunEnd::TooLong;
  const bool IsKilled = WIFSIGNALED(How.Status) && WTERMSIG(How.Status) == SIGKILL;
  return IsKilled ? RunEnd::Killed : RunEnd::Crashed;
}

/// Returns in the processes of runs, but not in the nursery.
void Comparison::nurse(ArrayRef<size_t> Runs) {
  trial::Race Racing(Limit);
  const auto OnEnd = [&](size_t Number, trial::Race::End How) {
    CandidateRun &Run = Shared[Number];
    if (Run.End == RunEnd::NotTried)
      Run.End = endOf(How);
    if (Run.End == RunEnd::Measured || Run.End == RunEnd::Refused)
      return true;
    if (Run.End == RunEnd::Crashed && Number != stock())
      return true;
    // The stock pipeline has won. How measuring it ends says whether the candidate is to blame.
    if (!Racing.isRunning(stock()))
      _exit(0);
    return false;
  };
  Own = Racing.race(Runs, RunsAtOnce, Files, OnEnd);
  if (!Own)
    _exit(0);
  PassesLeft = passLimit(M);
  Began = seconds();
  silence();
}

/// In the process of a run: the candidate is left out for an error that compiling with it would
/// report.
class RefusesErrors final : public DiagnosticHandler {
public:
  explicit RefusesErrors(std::function<void()> Refuse) : Refuse(std::move(Refuse)) {}
  bool handleDiagnostics(const DiagnosticInfo &Info) override {
    if (Info.getSeverity() == DS_Error)
      Refuse();
    return true;
  }

private:
  std::function<void()> Refuse;
};

/// In the process of a run: remarks and errors are not the user's.
void Comparison::silence() {
  trial::divert(M.getContext(), std::make_unique<RefusesErrors>([this] { end(RunEnd::Refused); }));
}

void Comparison::measure(Module &Code, TargetMachine *TM) {
  PassSeconds = seconds() - Began;
  Began += PassSeconds;
  llvm::Expected<uint64_t> Bytes = measureCode(Code, TM);
  if (!Bytes)
    end(RunEnd::Refused);
  end(RunEnd::Measured, *Bytes);
}

void Comparison::setOptions() {
  InForce.reset();
  if (!InForce.set(Result.Candidates[*Own].Options))
    end(RunEnd::BadOption);
}

void Comparison::run() {
  setOptions();
  PassBuilder Builder;
  NoOutlineHot::registerIn(Builder);
  Error E = runMandatoryLowering(M, MAM);
  for (const std::string &Passes : Result.Candidates[*Own].Pipelines)
    if (!E)
      E = runPipeline(Builder, Passes, M, MAM);
  if (E) {
    consumeError(std::move(E));
    end(RunEnd::Refused);
  }
}

/// Uses analyses of its own, as those of the host may be gone.
void Comparison::continueStock(TargetMachine *TM) {
  setOptions();
  versions::forgetPluginInlineAdvisor();
  LoopAnalysisManager Loops;
  FunctionAnalysisManager Functions;
  CGSCCAnalysisManager Sccs;
  ModuleAnalysisManager Modules;
  PassInstrumentationCallbacks Count;
  Count.registerBeforeNonSkippedPassCallback([this](StringRef, const Any &) { countPass(); });
  PassBuilder Builder(TM, PipelineTuningOptions(), std::nullopt, &Count);
  NoOutlineHot::registerIn(Builder);
  Builder.registerModuleAnalyses(Modules);
  Builder.registerCGSCCAnalyses(Sccs);
  Builder.registerFunctionAnalyses(Functions);
  Builder.registerLoopAnalyses(Loops);
  Builder.crossRegisterProxies(Loops, Functions, Sccs, Modules);
  for (const std::string &Passes : Result.Candidates[*Own].Pipelines)
    if (Error E = runPipeline(Builder, Passes, M, Modules)) {
      consumeError(std::move(E));
      end(RunEnd::Refused);
    }
}

void Comparison::countPass() {
  if (PassesLeft-- == 0)
    end(RunEnd::TooManyPasses);
}

void Comparison::end(RunEnd How, uint64_t Bytes) {
  CandidateRun &Run = Shared[*Own];
  Run.Bytes = Bytes;
  Run.PassSeconds = PassSeconds;
  Run.MeasuringSeconds = seconds() - Began;
  Run.End = How;
  _exit(0);
}

void Comparison::beforePass(StringRef Pass) {
  if (Decided)
    return;
  if (Own) {
    countPass();
    if (needsStockCode(Pass))
      end(RunEnd::Refused);
  }
  if (writesModule(Pass))
    decide(nullptr);
}

void Comparison::decide(TargetMachine *TM) {
  Decided = true;
  if (Own)
    finish(TM);
  if (!isModuleThere() || (TM && TM->getTargetTriple() != versions::tripleOf(M)))
    return;
  compare(TM);
  const bool AsAssembly = IsLink && TM;
  std::unique_ptr<Module> Code;
  if (Result.Winner) {
    const Candidate &Best = Result.Candidates[*Result.Winner];
    Code = madeBy(*Result.Winner, AsAssembly);
    if (!Code) {
      Result.Problem = "no memory for what candidate '" + Best.Name + "' made";
      Result.Winner.reset();
    } else if (TM && !AsAssembly) {
      InForce.set(Best.Options);
    }
  }
  Report(M, Result);
  if (!Code)
    return;
  replaceContents(M, *Code);
  if (AsAssembly)
    TM->Options.MCOptions.MCNoWarn = true;
  else if (!TM)
    MAM.clear(M, M.getName());
}

/// False if the host has given the module up without generating code.
bool Comparison::isModuleThere() const {
  return any_of(Functions, [this](const WeakVH &F) {
    const Value *V = F;
    return V && cast<llvm::Function>(V)->getParent() == &M;
  });
}

static llvm::Expected<std::unique_ptr<Module>> read(MemoryBufferRef Bitcode, Module &M) {
  llvm::Expected<std::unique_ptr<Module>> Read = parseBitcodeFile(Bitcode, M.getContext());
  if (Read)
    (*Read)->setModuleIdentifier(M.getModuleIdentifier());
  return Read;
}

/// The code of a module with nothing but this assembly.
static std::unique_ptr<Module> assembled(StringRef Text, const Module &M) {
  auto Code = std::make_unique<Module>(M.getModuleIdentifier(), M.getContext());
  Code->setSourceFileName(M.getSourceFileName());
  Code->setTargetTriple(M.getTargetTriple());
  Code->setDataLayout(M.getDataLayout());
  Code->setModuleInlineAsm(Text);
  return Code;
}

void Comparison::finishAssembly(TargetMachine &TM) {
  llvm::Expected<std::string> Text = assemblyOf(M, TM);
  if (!Text) {
    consumeError(Text.takeError());
    end(RunEnd::Refused);
  }
  if (!trial::writeAll(Files[*Own], *Text))
    end(RunEnd::Killed);
  TM.Options.MCOptions.MCNoWarn = true; // the user's own code is not in question any more
  measure(*assembled(*Text, M), &TM);
}

void Comparison::finish(TargetMachine *TM) {
  if (TM && IsLink)
    finishAssembly(*TM);
  if (!TM)
    InForce.reset(); // whoever generates code later has none of its options
  SmallVector<char, 0> Bytes;
  raw_svector_ostream Out(Bytes);
  WriteBitcodeToFile(M, Out, /*ShouldPreserveUseListOrder=*/true);
  // What is measured is what the compiler will read.
  llvm::Expected<std::unique_ptr<Module>> Read =
      read(MemoryBufferRef(Out.str(), M.getModuleIdentifier()), M);
  if (!Read) { // as with data layouts that LLVM writes and doesn't read
    consumeError(Read.takeError());
    end(RunEnd::Refused);
  }
  if (!trial::writeAll(Files[*Own], Out.str()))
    end(RunEnd::Killed);
  measure(**Read, TM);
}

void Comparison::compare(TargetMachine *TM) {
  PassSeconds = seconds() - Began;
  if (!Result.Problem.empty())
    return;
  std::vector<size_t> Late = candidates(/*AfterStock=*/true);
  Late.insert(Late.begin(), stock());
  trial::Child Second;
  if (Second.fork()) {
    trial::isolate(Files);
    nurse(Late);
    if (*Own == stock())
      measure(M, TM);
    continueStock(TM);
    finish(TM);
  }
  if (Second.Id < 0) {
    Result.Problem = std::string("no process to measure in: ") + strerror(errno);
    return;
  }
  // Nurseries keep their own deadlines, so they end by themselves, unless another thread had a lock
  // when they were forked.
  const size_t Count = stock();
  Second.reapWithin(Limit * (Count + 1));
  if (Nursery.Id > 0)
    Nursery.reapWithin(Limit * (Count + 1));
  for (size_t I = 0; I < Count; ++I)
    Result.Runs[I] = Shared[I];
  Result.Stock = Shared[Count];
  Result.Stock.PassSeconds = PassSeconds;
  Result.Problem = problem();
  if (!Result.Problem.empty() || Result.Stock.End != RunEnd::Measured)
    return;
  uint64_t Least = Result.Stock.Bytes;
  std::optional<size_t> Best;
  for (size_t I = 0; I < Count; ++I)
    if (Shared[I].End == RunEnd::Measured && Shared[I].Bytes < Least) {
      Least = Shared[I].Bytes;
      Best = I;
    }
  Result.Winner = Best;
}

/// What a candidate has made, or null.
std::unique_ptr<Module> Comparison::madeBy(size_t Index, bool AsAssembly) {
  const int File = Files[Index];
  struct stat Status;
  if (fstat(File, &Status) != 0)
    return nullptr;
  ErrorOr<std::unique_ptr<MemoryBuffer>> Bytes =
      MemoryBuffer::getOpenFile(File, M.getModuleIdentifier(), uint64_t(Status.st_size));
  if (!Bytes)
    return nullptr;
  if (AsAssembly)
    return assembled((*Bytes)->getBuffer(), M);
  llvm::Expected<std::unique_ptr<Module>> Read = read(**Bytes, M);
  if (!Read) {
    consumeError(Read.takeError());
    return nullptr;
  }
  return std::move(*Read);
}

/// The time limit, for messages.
std::string Comparison::limit() const {
  return Limit == trial::Longest ? "a minute" : std::to_string(Limit.count()) + " s";
}

std::string Comparison::problem() const {
  if (Shared[stock()].End == RunEnd::TooLong)
    return "the code of the usual passes takes longer than " + limit() +
           " to make, so this object may not be reproducible";
  if (Shared[stock()].End == RunEnd::Crashed || Shared[stock()].End == RunEnd::Killed)
    return "LLVM's code generator fails for " + versions::tripleOf(M).str() +
           ", so nothing can be compared";
  for (const auto &[Run, Candidate] : zip(Result.Runs, Result.Candidates)) {
    const std::string Who = "candidate '" + Candidate.Name + "' ";
    switch (Run.End) {
    case RunEnd::Killed:
      return Who + "was killed, so this object may not be reproducible";
    case RunEnd::TooManyPasses:
      return Who + "ran too many passes";
    case RunEnd::TooLong:
      return Who + "took longer than " + limit() + ", so this object may not be reproducible";
    case RunEnd::BadOption:
      return Who + "has an option whose value LLVM refuses";
    default:
      break;
    }
  }
  if (any_of(Result.Runs, [](const CandidateRun &Run) { return Run.End == RunEnd::NotTried; }))
    return "no process for candidates";
  return {};
}

} // namespace

void registerComparison(PassBuilder &PB) {
  const auto Decide = [](TargetMachine *TM, const Module *Known) {
    if (!Current || Current->isDecided() || (Known && !Current->isAbout(*Known)))
      return;
    if (Known)
      Current->forgetAnalyses(); // the host hasn't yet
    Current->decide(TM);
    Current.reset();
  };
  versions::registerBeforeCodeGeneration(PB, Decide);
  // A run needs no more of the host, which may now open files, or generate no code at all.
  versions::registerPipelineEnd(PB, [](TargetMachine *TM, const Module *) {
    if (Current && trial::isTrial())
      Current->decide(TM);
    trial::mustNotBeTrial();
  });
  if (PassInstrumentationCallbacks *PIC = PB.getPassInstrumentationCallbacks())
    PIC->registerBeforeNonSkippedPassCallback([](StringRef Pass, const Any &) {
      if (Current)
        Current->beforePass(Pass);
    });
}

void forgetLastModule() {
  Current.reset();
  InForce.reset();
}

bool startComparison(Module &M, ModuleAnalysisManager &MAM, std::vector<Candidate> Candidates,
                     bool IsLink, Selected Report) {
  if (IsLink)
    initializeLlvm(M); // before it is Current, which would take this for its own code
  Current = std::make_unique<Comparison>(M, MAM, std::move(Candidates), IsLink, std::move(Report));
  return Current->start();
}

} // namespace mlbridge::phase_ordering
