// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// For stock clang-22 and opt-22 with Polly: models decide for each function if Polly runs on it,
// and with which tile sizes.
//   clang-22 -O3 -mllvm -polly -Xclang -fpass-plugin=mlbridge-polly-tiling.so -Xclang -mllvm
//     -Xclang -polly-tiling-model=URI
#include "band.h"
#include "plugin/flags.h"
#include "versions/pass_plugin.h"

#include "llvm/Analysis/OptimizationRemarkEmitter.h"
#include "llvm/IR/PassInstrumentation.h"
#include "llvm/Passes/PassBuilder.h"

#include <mutex>
#include <utility>

using namespace llvm;

namespace mlbridge::polly_tiling {

namespace {

constexpr const char *PassName = "polly-tiling", *Sizes = "polly-tile-sizes",
                     *OwnSizes = "Polly's own sizes hold";

const plugin::Flags Flags(PassName, "The model that chooses Polly's tile sizes", "O1,O2,O3");

struct Close {
  void operator()(tiles_chooser *Chooser) const { tiles_close(Chooser); }
};

/// Decides before Polly runs on a function.
class Decider {
public:
  Decider() = default;
  Decider(const Decider &) = delete;
  Decider &operator=(const Decider &) = delete;
  /// Restores Polly's option for the next compilation of this process.
  ~Decider() { leave(); }

  void use(FunctionAnalysisManager &Manager) { Analyses = &Manager; }

  /// Polly, and the passes that clean up after it, come between the two.
  void enter(const Function &F) { Within = &F; }
  void exit() {
    Within = nullptr;
    Skips = false;
  }

  /// True if all passes are left out: a function without Polly needs no cleaning.
  bool skips() const { return Skips; }

  /// Modules are compiled in several threads, but Polly's option holds for the process.
  void noteThreads() { HasThreads = true; }

  /// True if Polly is to run.
  bool decide(Function &F) {
    const bool Runs = choose(F);
    Skips = !Runs && Within == &F;
    return Runs;
  }

private:
  /// Polly's option holds for the process, so it is set for each function.
  bool choose(Function &F) {
    if (!std::exchange(IsChecked, true))
      check(F.getContext());
    if (HasFailed || F.hasOptNone() || !Options.wants(plugin::levelOf(F, "O3")))
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
      HasFailed = true;
      Options.giveUp(F.getContext(),
                     {static_cast<mlbridge::Code>(Code),
                      F.getName().str() + ": " + tiles_message(Chooser.get())},
                     OwnSizes);
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

  /// Restores Polly's option, so that Polly runs as if there were no plugin.
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
    Status Valid = Options.validate();
    if (Valid && HasThreads) {
      HasFailed = true;
      static std::once_flag Once;
      std::call_once(Once, [&] {
        Options.giveUp(Context,
                       {Code::Unsupported, "ThinLTO links in threads, which share Polly's sizes"},
                       OwnSizes);
      });
      return;
    }
    Option = cl::getRegisteredOptions().lookup(Sizes);
    if (Valid && !Option)
      Valid = {Code::Unsupported, std::string("this Polly has no option -") + Sizes};
    if (Valid && Option->getNumOccurrences())
      Valid = {Code::InvalidArgument,
               std::string("-") + Sizes +
                   " is given as well; expected it, or a model that chooses"};
    if (!Valid) {
      Options.refuse(Context, Valid);
      HasFailed = true;
    }
  }

  void open(const Function &F) {
    const OpenOptions Wanted = Options.opening(F.getParent()->getSourceFileName());
    const mlbridge_open_options Opening = {sizeof Opening,
                                           Wanted.deadline->count(),
                                           Wanted.sharedBudget,
                                           {nullptr, nullptr, Wanted.context.unit.c_str()}};
    Chooser.reset(tiles_open(Options.Model.c_str(), &Opening));
  }

  const plugin::Settings Options = Flags.settings();
  FunctionAnalysisManager *Analyses = nullptr;
  std::unique_ptr<tiles_chooser, Close> Chooser;
  cl::Option *Option = nullptr;
  const Function *Within = nullptr;
  bool IsChecked = false, HasFailed = false, HasThreads = false, IsSet = false, Skips = false;
};

/// Tells where Polly's passes begin, and where they end.
struct Border : PassInfoMixin<Border> {
  std::shared_ptr<Decider> State;
  bool Begins;

  Border(std::shared_ptr<Decider> State, bool Begins) : State(std::move(State)), Begins(Begins) {}
  PreservedAnalyses run(Function &F, FunctionAnalysisManager &) {
    if (Begins)
      State->enter(F);
    else
      State->exit();
    return PreservedAnalyses::all();
  }
  static bool isRequired() { return true; }
};

void addTo(PassBuilder &Builder) {
  PassInstrumentationCallbacks *const Callbacks = Builder.getPassInstrumentationCallbacks();
  if (!Flags.given() || !Callbacks)
    return;
  const auto State = std::make_shared<Decider>();
  Builder.registerAnalysisRegistrationCallback(
      [State](FunctionAnalysisManager &Manager) { State->use(Manager); });
  // Plugins are asked before Polly, and passes that they add then come before it. Passes that are
  // added while a pipeline is made come behind it.
  const auto Closed = std::make_shared<bool>(false);
  Builder.registerOptimizerEarlyEPCallback(
      [State, Closed, &Builder](ModulePassManager &, OptimizationLevel, ThinOrFullLTOPhase Phase) {
        if (Phase == ThinOrFullLTOPhase::ThinLTOPostLink)
          State->noteThreads();
        if (!std::exchange(*Closed, true))
          Builder.registerVectorizerStartEPCallback(
              [State](FunctionPassManager &Passes, OptimizationLevel) {
                Passes.addPass(Border(State, false));
              });
      });
  Builder.registerVectorizerStartEPCallback(
      [State, Closed](FunctionPassManager &Passes, OptimizationLevel) {
        if (*Closed)
          Passes.addPass(Border(State, true));
      });
  Callbacks->registerShouldRunOptionalPassCallback([State](StringRef Pass, Any On) {
    if (State->skips())
      return false;
    const Function *const *F = any_cast<const Function *>(&On);
    return !F || Pass != "polly::PollyFunctionPass" || State->decide(const_cast<Function &>(**F));
  });
}

} // namespace

} // namespace mlbridge::polly_tiling

extern "C" [[gnu::visibility("default")]] PassPluginLibraryInfo llvmGetPassPluginInfo() {
  return {LLVM_PLUGIN_API_VERSION, "PollyTiling", "1", mlbridge::polly_tiling::addTo};
}
