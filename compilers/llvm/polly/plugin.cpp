// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// For stock clang-22 and opt-22 with Polly: models decide of each function whether Polly runs on
// it, and with which tile sizes.
//   clang-22 -O3 -mllvm -polly -Xclang -fpass-plugin=mlbridge-polly-tiling.so -Xclang -mllvm
//     -Xclang -polly-tiling-model=URI
#include "advice/flags.h"
#include "band.h"
#include "versions/pass_plugin.h"

#include <mlbridge/uri.h>

#include "llvm/Analysis/OptimizationRemarkEmitter.h"
#include "llvm/IR/PassInstrumentation.h"
#include "llvm/Passes/PassBuilder.h"

#include <mutex>
#include <utility>

using namespace llvm;

namespace mlbridge::polly {

namespace {

constexpr const char *PassName = "polly-tiling", *Sizes = "polly-tile-sizes";

const advice::Flags Flags(PassName, "The model that chooses Polly's tile sizes", "O1,O2,O3");

struct Close {
  void operator()(tiles_chooser *Of) const { tiles_close(Of); }
};

/// What is asked before Polly runs on a function.
class Decider {
public:
  Decider() = default;
  Decider(const Decider &) = delete;
  Decider &operator=(const Decider &) = delete;
  /// What is compiled next in this process finds Polly's option as it was.
  ~Decider() { leave(); }

  void use(FunctionAnalysisManager &Manager) { Analyses = &Manager; }

  /// Polly, and the passes that clean up after it, come between the two.
  void enter(const Function &F) { Within = &F; }
  void exit() {
    Within = nullptr;
    Skips = false;
  }

  /// Whether all passes are left out: a function without Polly needs no cleaning.
  bool skips() const { return Skips; }

  /// Modules are compiled in several threads, but Polly's option holds for the process.
  void isInThreads() { InThreads = true; }

  /// Whether Polly is to run.
  bool decide(Function &F) {
    const bool Runs = choose(F);
    Skips = !Runs && Within == &F;
    return Runs;
  }

private:
  /// Polly's option holds for the process, so it is set for each function.
  bool choose(Function &F) {
    if (!Checked)
      check(F.getContext());
    if (Failed || F.hasOptNone() || !Options.wants(advice::levelOf(F, "O3")))
      return leave();
    auto &Loops = Analyses->getResult<LoopAnalysis>(F);
    const std::vector<tiles_loop> Band =
        bandOf(Loops, Analyses->getResult<ScalarEvolutionAnalysis>(F));
    if (Band.empty())
      return leave();
    if (!Chooser)
      open(F);
    if (!Chooser) // no memory
      return leave();
    std::vector<int64_t> Chosen(Band.size());
    const mlbridge_code Code =
        choose_tiles(Chooser.get(), Band.data(), static_cast<int>(Band.size()), Chosen.data());
    if (Code != MLBRIDGE_OK) {
      Failed = true;
      advice::giveUp(Options, F.getContext(),
                     {static_cast<mlbridge::Code>(Code),
                      F.getName().str() + ": " + tiles_message(Chooser.get())},
                     "Polly's own sizes hold");
      return leave();
    }
    const bool Runs = any_of(Chosen, [](int64_t Size) { return Size != 1; });
    std::string Text;
    for (const int64_t Size : Chosen)
      Text += (Text.empty() ? "" : ", ") + std::to_string(Size);
    Analyses->getResult<OptimizationRemarkEmitterAnalysis>(F).emit([&] {
      return OptimizationRemark(PassName, "Decided",
                                Loops.getTopLevelLoops().front()->getStartLoc(), &F.getEntryBlock())
             << (Runs ? "tile sizes " + Text : "Polly is left out of " + F.getName()).str();
    });
    set(Chosen);
    return Runs;
  }

  /// As if there were no plugin.
  bool leave() {
    if (Option && IsSet)
      Option->reset();
    IsSet = false;
    return true;
  }

  void set(ArrayRef<int64_t> Chosen) {
    leave();
    IsSet = true;
    for (const int64_t Size : Chosen)
      Option->addOccurrence(1, Sizes, std::to_string(Size));
  }

  void check(LLVMContext &Context) {
    Checked = true;
    Status Right = Options.check();
    if (Right && InThreads) {
      Failed = true;
      static std::once_flag Once;
      std::call_once(Once, [&] {
        advice::giveUp(Options, Context,
                       {Code::Unsupported, "ThinLTO links in threads, which share Polly's sizes"},
                       "Polly's own sizes hold");
      });
      return;
    }
    const auto Found = cl::getRegisteredOptions().find(Sizes);
    if (Found != cl::getRegisteredOptions().end())
      Option = Found->second;
    if (Right && !Option)
      Right = {Code::Unsupported, std::string("this Polly has no option -") + Sizes};
    if (Right && Option->getNumOccurrences())
      Right = {Code::InvalidArgument,
               std::string("-") + Sizes +
                   " is given as well; expected it, or a model that chooses"};
    if (!Right) {
      advice::refuse(Options, Context, Right);
      Failed = true;
    }
  }

  void open(const Function &F) {
    const int64_t Deadline = parseDuration(Options.Deadline)->count(); // check() has accepted it
    const std::string &Context = F.getParent()->getSourceFileName();
    const mlbridge_open_options Opening = {sizeof Opening, Deadline, true,
                                           nullptr,        nullptr,  Context.c_str()};
    Chooser.reset(tiles_open(Options.Model.c_str(), &Opening));
  }

  const advice::Settings Options = Flags.settings();
  FunctionAnalysisManager *Analyses = nullptr;
  std::unique_ptr<tiles_chooser, Close> Chooser;
  cl::Option *Option = nullptr;
  const Function *Within = nullptr;
  bool Checked = false, Failed = false, InThreads = false, IsSet = false, Skips = false;
};

/// Says where Polly's passes begin, and where they end.
struct Border : PassInfoMixin<Border> {
  std::shared_ptr<Decider> Asked;
  bool Begins;

  Border(std::shared_ptr<Decider> Asked, bool Begins) : Asked(std::move(Asked)), Begins(Begins) {}
  PreservedAnalyses run(Function &F, FunctionAnalysisManager &) {
    if (Begins)
      Asked->enter(F);
    else
      Asked->exit();
    return PreservedAnalyses::all();
  }
  static bool isRequired() { return true; }
};

void addTo(PassBuilder &Builder) {
  PassInstrumentationCallbacks *const Callbacks = Builder.getPassInstrumentationCallbacks();
  if (!Flags.given() || !Callbacks)
    return;
  const auto Asked = std::make_shared<Decider>();
  Builder.registerAnalysisRegistrationCallback(
      [Asked](FunctionAnalysisManager &Manager) { Asked->use(Manager); });
  // Plugins are asked before Polly, and what is added then comes before it. What is added while a
  // pipeline is made comes behind it.
  const auto Closed = std::make_shared<bool>(false);
  Builder.registerOptimizerEarlyEPCallback(
      [Asked, Closed, &Builder](ModulePassManager &, OptimizationLevel, ThinOrFullLTOPhase Phase) {
        if (Phase == ThinOrFullLTOPhase::ThinLTOPostLink)
          Asked->isInThreads();
        if (!std::exchange(*Closed, true))
          Builder.registerVectorizerStartEPCallback(
              [Asked](FunctionPassManager &Passes, OptimizationLevel) {
                Passes.addPass(Border(Asked, false));
              });
      });
  Builder.registerVectorizerStartEPCallback(
      [Asked, Closed](FunctionPassManager &Passes, OptimizationLevel) {
        if (*Closed)
          Passes.addPass(Border(Asked, true));
      });
  Callbacks->registerShouldRunOptionalPassCallback([Asked](StringRef Pass, Any On) {
    if (Asked->skips())
      return false;
    const Function *const *F = any_cast<const Function *>(&On);
    return !F || Pass != "polly::PollyFunctionPass" || Asked->decide(const_cast<Function &>(**F));
  });
}

} // namespace

} // namespace mlbridge::polly

extern "C" [[gnu::visibility("default")]] PassPluginLibraryInfo llvmGetPassPluginInfo() {
  return {LLVM_PLUGIN_API_VERSION, "PollyTiling", "1", mlbridge::polly::addTo};
}
