// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A pass for stock clang-22 and opt-22 in which models decide how loops are distributed.
//   clang-22 -O2 -Xclang -fpass-plugin=mlbridge-loop-distribution.so -Xclang -mllvm
//     -Xclang -loop-distribution-model=URIS
//   opt-22 -load-pass-plugin=mlbridge-loop-distribution.so -passes=mlbridge-loop-distribution
#include "copy.h"
#include "distribution.h"
#include "environment.h"
#include "plugin/agent_models.h"
#include "plugin/levels.h"
#include "versions/pass_plugin.h"

#include "llvm/Analysis/AssumptionCache.h"
#include "llvm/Analysis/CFG.h"
#include "llvm/Analysis/OptimizationRemarkEmitter.h"
#include "llvm/Passes/PassBuilder.h"
#include "llvm/Transforms/Utils/LCSSA.h"
#include "llvm/Transforms/Utils/LoopSimplify.h"

using namespace llvm;

namespace mlbridge::loop_distribution {

namespace {

constexpr const char *PassName = "loop-distribution";

const plugin::Flags Flags(PassName, "The models that distribute loops: one URI, or AGENT=URI;...",
                          "O2,O3");
const plugin::Flag VocabularyFlag(PassName, "vocabulary", "", "FILE",
                                  "The vocabulary for embeddings instead of the built-in one");

/// The options and agents of one pipeline. The agents are opened when there is a loop for them.
struct Decider {
  plugin::Settings Options = Flags.settings();
  plugin::AgentModels<DistributionEnvironment, embeddings::Vocabulary> Models;
  bool IsChecked = false, HasFailed = false;

  /// True if the agents may be asked.
  bool isReady(const llvm::Function &F) {
    if (!std::exchange(IsChecked, true))
      if (const Status Valid = Options.validate(); !Valid) {
        Options.refuse(F.getContext(), Valid);
        HasFailed = true;
      }
    return !HasFailed;
  }
};

/// "S1,S2 | S3": the nodes of each loop, in the order of their selection.
std::string describe(const DistributionEnvironment &Decided) {
  std::string Text;
  std::optional<size_t> Last;
  for (const unsigned Node : Decided.order()) {
    const size_t Loop = Decided.loopOf(Node);
    Text += (Twine(!Last ? "" : *Last == Loop ? "," : " | ") + "S" + Twine(Node + 1)).str();
    Last = Loop;
  }
  return Text;
}

bool hasLoops(const llvm::Function &F) {
  SmallVector<std::pair<const BasicBlock *, const BasicBlock *>, 4> Back;
  FindFunctionBackedges(F, Back);
  return !Back.empty();
}

/// Canonicalizes the loops of a function as the vectorizer would, and visits the innermost ones.
template <typename Visitor>
void forEachInnermost(llvm::Function &F, FunctionAnalysisManager &Manager, const Visitor &Visit) {
  Manager.invalidate(F, LoopSimplifyPass().run(F, Manager));
  Manager.invalidate(F, LCSSAPass().run(F, Manager));
  auto &Loops = Manager.getResult<LoopAnalysis>(F);
  const Analyses Analysis{Manager.getResult<AAManager>(F),
                          Manager.getResult<AssumptionAnalysis>(F),
                          Manager.getResult<DominatorTreeAnalysis>(F),
                          Loops,
                          Manager.getResult<ScalarEvolutionAnalysis>(F),
                          Manager.getResult<LoopAccessAnalysis>(F),
                          Manager.getResult<TargetIRAnalysis>(F)};
  SmallVector<Loop *, 8> Innermost;
  for (Loop *L : Loops.getLoopsInPreorder())
    if (L->isInnermost())
      Innermost.push_back(L);
  for (Loop *L : Innermost)
    Visit(*L, Analysis);
}

/// The nodes of each of the loops into which a loop is divided, by the instruction at the end of
/// the loop's iterations.
using Divisions = DenseMap<const Instruction *, std::vector<BitVector>>;

class LoopDistribution : public PassInfoMixin<LoopDistribution> {
public:
  /// Without a level, the pass acts at any.
  explicit LoopDistribution(std::optional<OptimizationLevel> Level)
      : Level(Level), State(std::make_shared<Decider>()) {
    if (!Level && State->Options.Model.empty())
      State->Options.Model = "function:heuristic"; // -passes=mlbridge-loop-distribution
  }

  /// Until it is known that a loop is divided, works on a copy. Canonical loops, but also an
  /// analysis that has been asked more, or earlier, would change what later passes make of the
  /// function: ScalarEvolution keeps what it proved, for example.
  PreservedAnalyses run(llvm::Function &F, FunctionAnalysisManager &Manager) {
    if (!State->isReady(F) ||
        (Level && !State->Options.wants(plugin::levelOf(F, plugin::nameOf(*Level)))) ||
        !hasLoops(F))
      return PreservedAnalyses::all();
    const Divisions Decided = decideAll(F, Manager);
    if (Decided.empty())
      return PreservedAnalyses::all();
    Manager.invalidate(F, PreservedAnalyses::none()); // the copy had no analyses either
    size_t Divided = 0;
    forEachInnermost(F, Manager, [&](Loop &L, const Analyses &Analysis) {
      const auto Division =
          L.getLoopLatch() ? Decided.find(L.getLoopLatch()->getTerminator()) : Decided.end();
      if (Division == Decided.end() || !LoopGraph::refusal(L, Analysis).empty())
        return;
      const std::vector<BitVector> &Loops = Division->second;
      const LoopGraph Graph(L, Analysis, mayCheck(F));
      if (Graph.nodes().size() != Loops.front().size() || !Graph.isLegal(Loops))
        return;
      distribute(Graph, Loops, Analysis);
      ++Divided;
    });
    if (Divided < Decided.size()) // should never be: the copy was the same
      State->Options.report(F.getContext(), DS_Warning,
                            F.getName() +
                                ": a loop is left that was divided in a copy of the function");
    return PreservedAnalyses::none();
  }

private:
  static bool mayCheck(const llvm::Function &F) { return !F.hasOptSize(); }

  /// Asks the agents, and divides the loops of a copy.
  Divisions decideAll(llvm::Function &F, FunctionAnalysisManager &Manager) {
    Divisions Decided;
    Copy Trial(F, Manager);
    OptimizationRemarkEmitter Remarks(&F);
    forEachInnermost(Trial.function(), Manager, [&](Loop &L, const Analyses &Analysis) {
      const BasicBlock *const Latch = L.getLoopLatch();
      const Instruction *const End = Latch ? Trial.original(Latch->getTerminator()) : nullptr;
      if (State->HasFailed)
        return;
      std::vector<BitVector> Loops = decide(L, End, F, Analysis, Remarks);
      if (!Loops.empty())
        Decided[End] = std::move(Loops);
    });
    return Decided;
  }

  /// Divides a loop of the copy, after whose iterations `F` has that instruction. Returns the nodes
  /// of each new loop; nothing if the loop is left as it is.
  std::vector<BitVector> decide(Loop &L, const Instruction *End, const llvm::Function &F,
                                const Analyses &Analysis, OptimizationRemarkEmitter &Remarks) {
    const BasicBlock *const Where = End ? End->getParent() : &F.getEntryBlock();
    const auto Leave = [&](const Twine &Why) {
      Remarks.emit([&] {
        return OptimizationRemarkMissed(PassName, "Left", L.getStartLoc(), Where)
               << ("loop is left as it is: " + Why).str();
      });
      return std::vector<BitVector>();
    };
    if (const std::string Why = LoopGraph::refusal(L, Analysis); !Why.empty())
      return Leave(Why);
    if (!End)
      return Leave("simplification gave it another end");
    const LoopGraph Graph(L, Analysis, mayCheck(F));
    const size_t Count = Graph.nodes().size();
    if (Count < 2)
      return Leave("it can't be divided");
    if (Count > MaxNodes)
      return Leave("it has more than " + Twine(MaxNodes) + " nodes");
    auto &Models = State->Models;
    Models.open(State->Options, VocabularyFlag.value(), *F.getParent());
    std::optional<LoopEmbeddings> Vectors;
    if (Models.vocabulary())
      Vectors.emplace(Graph, *Models.vocabulary());
    DistributionEnvironment Environment(Graph, Models.specs(), Vectors ? &*Vectors : nullptr);
    const Status Played = Models.run(Environment, F).status;
    if (!Played) {
      State->HasFailed = true;
      State->Options.giveUp(F.getContext(), Played.withContext(F.getName()));
      return {};
    }
    const std::string Text = describe(Environment);
    if (Environment.loops().size() < 2)
      return Leave("agents decided " + Text);
    if (!Graph.isLegal(Environment.loops()))
      return Leave(Text + " is not legal");
    for (const unsigned Node : Environment.order()) {
      const Instruction *const Root = Graph.instructions()[Graph.nodes()[Node].Roots.front()];
      Remarks.emit([&] {
        return OptimizationRemark(PassName, "Decided", Root->getDebugLoc(), Where)
               << ("S" + Twine(Node + 1) + ": loop " + Twine(Environment.loopOf(Node) + 1)).str();
      });
    }
    const size_t Checks = Graph.checks(Environment.loops()).size();
    Remarks.emit([&] {
      return OptimizationRemark(PassName, "Distributed", L.getStartLoc(), Where)
             << ("distributed into " + Twine(Environment.loops().size()) + " loops: " + Text +
                 (Checks ? ", after " + Twine(Checks) + " comparisons of addresses" : Twine()))
                    .str();
    });
    distribute(Graph, Environment.loops(), Analysis);
    return Environment.loops();
  }

  std::optional<OptimizationLevel> Level;
  std::shared_ptr<Decider> State;
};

void addTo(PassBuilder &Builder) {
  static const Status Registered = registerAgents();
  (void)Registered;
  Builder.registerPipelineParsingCallback(
      [](StringRef Name, FunctionPassManager &To, ArrayRef<PassBuilder::PipelineElement>) {
        if (Name != "mlbridge-loop-distribution")
          return false;
        To.addPass(LoopDistribution(std::nullopt));
        return true;
      });
  if (Flags.given())
    Builder.registerVectorizerStartEPCallback([](FunctionPassManager &To, OptimizationLevel Level) {
      To.addPass(LoopDistribution(Level));
    });
}

} // namespace

} // namespace mlbridge::loop_distribution

extern "C" [[gnu::visibility("default")]] PassPluginLibraryInfo llvmGetPassPluginInfo() {
  return {LLVM_PLUGIN_API_VERSION, "LoopDistribution", "1", mlbridge::loop_distribution::addTo};
}
