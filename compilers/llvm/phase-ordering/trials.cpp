// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// One process, a nursery, keeps the module as it was and forks another for each candidate. Each of
// these goes on as the compiler would, up to code generation, where it measures and ends. The
// compiler itself meanwhile runs the stock pipeline. At code generation a second nursery measures
// that, and the candidates that continue it; then the compiler takes the best.
#include "trials.h"

#include "actions.h"
#include "code_size.h"
#include "middle_end.h"
#include "working_copy.h"

#include "trials/trial_process.h"
#include "versions/code_generation.h"
#include "versions/plugin_inline_advisor.h"
#include "versions/target_triple.h"

#include "llvm/ADT/ScopeExit.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/Bitcode/BitcodeReader.h"
#include "llvm/Bitcode/BitcodeWriter.h"
#include "llvm/IR/DiagnosticHandler.h"
#include "llvm/IR/DiagnosticInfo.h"
#include "llvm/IR/LLVMContext.h"
#include "llvm/IR/ValueHandle.h"
#include "llvm/Support/CommandLine.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Target/TargetMachine.h"

#include <chrono>
#include <poll.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

using namespace llvm;

namespace mlbridge::phase_ordering {

using Clock = std::chrono::steady_clock;

/// In a nursery.
static constexpr size_t TrialsAtOnce = 2;

/// Of a processor, in this process.
static double seconds() {
  timespec Now{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &Now);
  return double(Now.tv_sec) + double(Now.tv_nsec) * 1e-9;
}

/// How many passes a candidate may run: some hundred times those of a stock pipeline, which runs
/// about 100 on each function.
static uint64_t passLimit(const Module &M) {
  uint64_t Limit = 100000;
  for (const llvm::Function &F : M)
    Limit += F.isDeclaration() ? 0 : 1000 + 100 * F.size();
  return Limit;
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

/// What the processes of one module share.
class Contest {
public:
  Contest(Module &M, ModuleAnalysisManager &MAM, std::vector<Candidate> Candidates,
          Selected Report);
  ~Contest();
  Contest(const Contest &) = delete;
  Contest &operator=(const Contest &) = delete;

  /// Makes the nursery. True in a child that tries a candidate, which has then run on the module.
  bool start();
  /// Before each pass of the pipeline of a host.
  void beforePass(StringRef Pass);
  /// The middle end is done. `TM`: what generates code next, or null.
  void decide(TargetMachine *TM);
  bool isDecided() const { return Decided; }
  bool isOf(const Module &Other) const { return &M == &Other; }
  /// What the host knows of the module, where it is still there.
  void forgetAnalyses() {
    if (isModuleThere())
      MAM.clear(M, M.getName());
  }

private:
  void closeFiles();
  std::vector<size_t> candidates(bool AfterStock) const;
  size_t stock() const { return Result.Candidates.size(); }
  void nurse(ArrayRef<size_t> Trials);
  void setOptions();
  void run();
  void continueStock(TargetMachine *TM);
  void countPass();
  [[noreturn]] void end(TrialEnd How, uint64_t Bytes = 0);
  [[noreturn]] void finish(TargetMachine *TM);
  void silence();
  [[noreturn]] void measure(Module &Made, TargetMachine *TM);
  void select(TargetMachine *TM);
  bool take(size_t Index);
  std::string problem() const;
  bool isModuleThere() const;

  Module &M;
  ModuleAnalysisManager &MAM;
  Selected Report;
  Selection Result;
  std::vector<WeakVH> Functions;
  Trial *Shared = nullptr; ///< of each candidate, and at last that of the stock pipeline
  size_t SharedBytes = 0;
  std::vector<int> Files; ///< the bitcode that each candidate makes
  trial::Child Nursery;
  std::optional<size_t> Mine; ///< the candidate that this process tries, or stock()
  uint64_t PassesLeft = 0;
  double Began = 0; ///< seconds() when passes began, then when measuring did
  double PassSeconds = 0;
  bool Decided = false;
};

thread_local std::unique_ptr<Contest> Current;

/// Options that are set for a module, and reset when the next one begins.
class OptionsInForce {
public:
  /// False if LLVM refuses a value; it has then printed that.
  bool set(ArrayRef<std::string> Settings);
  void reset();

private:
  std::vector<cl::Option *> Set;
};
thread_local OptionsInForce InForce;

bool OptionsInForce::set(ArrayRef<std::string> Settings) {
  for (const std::string &Setting : Settings) {
    cl::Option *Its = findOption(Setting);
    if (!Its || Its->getNumOccurrences())
      continue; // the user has set it
    Set.push_back(Its);
    if (Its->addOccurrence(1, Its->ArgStr, StringRef(Setting).split('=').second))
      return false;
  }
  return true;
}

void OptionsInForce::reset() {
  for (cl::Option *Its : Set)
    Its->reset();
  Set.clear();
}

Contest::Contest(Module &M, ModuleAnalysisManager &MAM, std::vector<Candidate> Candidates,
                 Selected Report)
    : M(M), MAM(MAM), Report(std::move(Report)) {
  Result.Candidates = std::move(Candidates);
  Result.Trials.resize(Result.Candidates.size());
  for (llvm::Function &F : M)
    if (!F.isDeclaration())
      Functions.emplace_back(&F);
}

Contest::~Contest() {
  Nursery.end();
  closeFiles();
  if (Shared)
    munmap(Shared, SharedBytes);
}

void Contest::closeFiles() {
  for (const int File : Files)
    close(File);
  Files.clear();
}

bool Contest::start() {
  Began = seconds();
  const size_t Count = Result.Candidates.size();
  SharedBytes = (Count + 1) * sizeof(Trial);
  void *Memory =
      mmap(nullptr, SharedBytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (Memory == MAP_FAILED) {
    Result.Problem = std::string("no memory to share: ") + strerror(errno);
    return false;
  }
  Shared = new (Memory) Trial[Count + 1];
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

std::vector<size_t> Contest::candidates(bool AfterStock) const {
  std::vector<size_t> Found;
  for (size_t I = 0; I < stock(); ++I)
    if (Result.Candidates[I].AfterStock == AfterStock)
      Found.push_back(I);
  return Found;
}

/// Returns in the children that try something, but not in the nursery.
void Contest::nurse(ArrayRef<size_t> Trials) {
  struct Running {
    trial::Child Process;
    size_t Index;
    Clock::time_point Deadline;
  };
  std::vector<Running> Trying;
  size_t Next = 0;
  const auto Settle = [&](size_t At, TrialEnd IfSilent) {
    Trial &Its = Shared[Trying[At].Index];
    if (Its.End == TrialEnd::NotTried)
      Its.End = IfSilent;
    Trying.erase(Trying.begin() + At);
    if (Its.End == TrialEnd::Measured || Its.End == TrialEnd::Refused)
      return;
    // The stock pipeline has won. How measuring it ends says whether the candidate is to blame.
    if (none_of(Trying, [this](const Running &R) { return R.Index == stock(); }))
      _exit(0);
    Next = Trials.size();
  };
  while (Next < Trials.size() || !Trying.empty()) {
    while (Trying.size() < TrialsAtOnce && Next < Trials.size()) {
      Running New{{}, Trials[Next], Clock::now() + trial::Longest};
      if (New.Process.fork()) {
        Mine = New.Index;
        PassesLeft = passLimit(M);
        Began = seconds();
        silence();
        return;
      }
      if (New.Process.Id < 0)
        _exit(0);
      Trying.push_back(New);
      ++Next;
    }
    SmallVector<pollfd, TrialsAtOnce> Waits;
    for (const Running &R : Trying)
      Waits.push_back({R.Process.Alive, POLLIN, 0});
    const auto Left = std::chrono::duration_cast<std::chrono::milliseconds>(
        Trying.front().Deadline - Clock::now());
    poll(Waits.data(), Waits.size(), int(std::max<int64_t>(0, Left.count())) + 1);
    for (size_t At = Trying.size(); At-- > 0;) {
      if (Waits[At].revents) {
        Trying[At].Process.reap();
        Settle(At, TrialEnd::Crashed);
      } else if (Clock::now() >= Trying[At].Deadline) {
        Trying[At].Process.end();
        Settle(At, TrialEnd::TooLong);
      }
    }
  }
  _exit(0);
}

/// In a candidate's process: an error that compiling with it would be reported is none of the
/// user's.
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

/// In a child: remarks and errors are not the user's.
void Contest::silence() {
  trial::divert(M.getContext(),
                std::make_unique<RefusesErrors>([this] { end(TrialEnd::Refused); }));
}

void Contest::measure(Module &Made, TargetMachine *TM) {
  PassSeconds = seconds() - Began;
  Began += PassSeconds;
  llvm::Expected<uint64_t> Bytes = measureCode(Made, TM);
  if (!Bytes)
    end(TrialEnd::Refused);
  end(TrialEnd::Measured, *Bytes);
}

void Contest::setOptions() {
  InForce.reset();
  if (!InForce.set(Result.Candidates[*Mine].Options))
    end(TrialEnd::BadOption);
}

void Contest::run() {
  const Candidate &Way = Result.Candidates[*Mine];
  setOptions();
  PassBuilder Builder;
  Error E = runMandatoryLowering(M, MAM);
  for (const std::string &Passes : Way.Pipelines)
    if (!E)
      E = runPipeline(Builder, Passes, M, MAM);
  if (E) {
    consumeError(std::move(E));
    end(TrialEnd::Refused);
  }
}

/// With analyses of its own: those of the host may be gone.
void Contest::continueStock(TargetMachine *TM) {
  const Candidate &Way = Result.Candidates[*Mine];
  setOptions();
  versions::forgetPluginInlineAdvisor();
  LoopAnalysisManager Loops;
  FunctionAnalysisManager Functions;
  CGSCCAnalysisManager Sccs;
  ModuleAnalysisManager Modules;
  PassInstrumentationCallbacks Count;
  Count.registerBeforeNonSkippedPassCallback([this](StringRef, const Any &) { countPass(); });
  PassBuilder Builder(TM, PipelineTuningOptions(), std::nullopt, &Count);
  Builder.registerModuleAnalyses(Modules);
  Builder.registerCGSCCAnalyses(Sccs);
  Builder.registerFunctionAnalyses(Functions);
  Builder.registerLoopAnalyses(Loops);
  Builder.crossRegisterProxies(Loops, Functions, Sccs, Modules);
  for (const std::string &Passes : Way.Pipelines)
    if (Error E = runPipeline(Builder, Passes, M, Modules)) {
      consumeError(std::move(E));
      end(TrialEnd::Refused);
    }
}

void Contest::countPass() {
  if (PassesLeft-- == 0)
    end(TrialEnd::TooManyPasses);
}

void Contest::end(TrialEnd How, uint64_t Bytes) {
  Trial &Its = Shared[*Mine];
  Its.Bytes = Bytes;
  Its.PassSeconds = PassSeconds;
  Its.MeasuringSeconds = seconds() - Began;
  Its.End = How;
  _exit(0);
}

void Contest::beforePass(StringRef Pass) {
  if (Decided)
    return;
  if (Mine) {
    countPass();
    if (needsStockCode(Pass))
      end(TrialEnd::Refused);
  }
  if (writesModule(Pass))
    decide(nullptr);
}

void Contest::decide(TargetMachine *TM) {
  Decided = true;
  if (Mine)
    finish(TM);
  if (!isModuleThere() || (TM && TM->getTargetTriple() != versions::tripleOf(M)))
    return;
  select(TM);
  Report(M, Result);
}

/// Whether the module still exists: a host may have given it up without generating code.
bool Contest::isModuleThere() const {
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

void Contest::finish(TargetMachine *TM) {
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
    end(TrialEnd::Refused);
  }
  if (!trial::writeAll(Files[*Mine], Out.str()))
    _exit(1);
  measure(**Read, TM);
}

void Contest::select(TargetMachine *TM) {
  PassSeconds = seconds() - Began;
  if (!Result.Problem.empty())
    return;
  std::vector<size_t> Late = candidates(/*AfterStock=*/true);
  Late.insert(Late.begin(), stock());
  trial::Child Second;
  if (Second.fork()) {
    trial::isolate(Files);
    nurse(Late);
    if (*Mine == stock())
      measure(M, TM);
    continueStock(TM);
    finish(TM);
  }
  if (Second.Id < 0) {
    Result.Problem = std::string("no process to measure in: ") + strerror(errno);
    return;
  }
  // Nurseries keep their own deadlines, so they end by themselves.
  Second.reap();
  if (Nursery.Id > 0)
    Nursery.reap();
  const size_t Count = stock();
  std::copy_n(Shared, Count, Result.Trials.begin());
  Result.Stock = Shared[Count];
  Result.Stock.PassSeconds = PassSeconds;
  Result.Problem = problem();
  if (!Result.Problem.empty() || Result.Stock.End != TrialEnd::Measured)
    return;
  uint64_t Least = Result.Stock.Bytes;
  std::optional<size_t> Best;
  for (size_t I = 0; I < Count; ++I)
    if (Shared[I].End == TrialEnd::Measured && Shared[I].Bytes < Least) {
      Least = Shared[I].Bytes;
      Best = I;
    }
  if (!Best)
    return;
  if (!take(*Best)) {
    Result.Problem = "no memory for what candidate '" + Result.Candidates[*Best].Name + "' made";
    return;
  }
  Result.Winner = Best;
  if (TM)
    InForce.set(Result.Candidates[*Best].Options);
  else
    MAM.clear(M, M.getName());
}

bool Contest::take(size_t Index) {
  const int File = Files[Index];
  struct stat Its;
  if (fstat(File, &Its) != 0)
    return false;
  ErrorOr<std::unique_ptr<MemoryBuffer>> Bytes =
      MemoryBuffer::getOpenFile(File, M.getModuleIdentifier(), uint64_t(Its.st_size));
  if (!Bytes)
    return false;
  llvm::Expected<std::unique_ptr<Module>> Read = read(**Bytes, M);
  if (!Read) {
    consumeError(Read.takeError());
    return false;
  }
  replaceContents(M, **Read);
  return true;
}

std::string Contest::problem() const {
  if (Shared[stock()].End == TrialEnd::TooLong)
    return "the code of the usual passes takes longer than a minute to make, so this object may "
           "not be reproducible";
  if (Shared[stock()].End == TrialEnd::Crashed)
    return "LLVM's code generator fails for " + versions::tripleOf(M).str() +
           ", so nothing can be compared";
  for (const auto &[Its, Way] : zip(Result.Trials, Result.Candidates)) {
    const std::string Who = "candidate '" + Way.Name + "' ";
    switch (Its.End) {
    case TrialEnd::Crashed:
      return Who + "crashed";
    case TrialEnd::TooManyPasses:
      return Who + "ran too many passes";
    case TrialEnd::TooLong:
      return Who + "took longer than a minute, so this object may not be reproducible";
    case TrialEnd::BadOption:
      return Who + "has an option whose value LLVM refuses";
    default:
      break;
    }
  }
  if (any_of(Result.Trials, [](const Trial &T) { return T.End == TrialEnd::NotTried; }))
    return "no process for candidates";
  return {};
}

} // namespace

cl::Option *findOption(StringRef Setting) {
  return cl::getRegisteredOptions().lookup(Setting.split('=').first);
}

void registerTrials(PassBuilder &PB) {
  const auto Decide = [](TargetMachine *TM, const Module *Of) {
    if (!Current || Current->isDecided() || (Of && !Current->isOf(*Of)))
      return;
    if (Of)
      Current->forgetAnalyses(); // the host hasn't yet
    Current->decide(TM);
    Current.reset();
  };
  versions::registerBeforeCodeGeneration(PB, Decide);
  // A trial needs no more of the host, which may now open files, or generate no code at all.
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

bool startTrials(Module &M, ModuleAnalysisManager &MAM, std::vector<Candidate> Candidates,
                 Selected Report) {
  Current = std::make_unique<Contest>(M, MAM, std::move(Candidates), std::move(Report));
  return Current->start();
}

} // namespace mlbridge::phase_ordering
