// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A pass for stock clang-22 and opt-22 in which models decide how loops are distributed.
//   clang-22 -O2 -Xclang -fpass-plugin=mlbridge-loop-distribution.so -Xclang -mllvm
//     -Xclang -loop-distribution-model=URIS
//   opt-22 -load-pass-plugin=mlbridge-loop-distribution.so -passes=mlbridge-loop-distribution
#include "advice/flags.h"
#include "agents.h"
#include "asked_vocabulary.h"
#include "copy.h"
#include "diagnostic.h"
#include "distribution.h"
#include "environment.h"
#include "levels.h"
#include "versions/pass_plugin.h"

#include <mlbridge/uri.h>

#include "llvm/Analysis/AssumptionCache.h"
#include "llvm/Analysis/CFG.h"
#include "llvm/Analysis/OptimizationRemarkEmitter.h"
#include "llvm/Passes/PassBuilder.h"
#include "llvm/Transforms/Utils/LCSSA.h"
#include "llvm/Transforms/Utils/LoopSimplify.h"

using namespace llvm;

namespace mlbridge::distribution {

namespace {

constexpr const char *PassName = "loop-distribution";

class DistributionFlags final : public advice::Flags {
public:
  DistributionFlags()
      : Flags(PassName, "The models that distribute loops: one URI, or AGENT=URI;...", "O2,O3"),
        Vocabulary("loop-distribution-vocabulary", cl::value_desc("FILE"),
                   cl::desc("The vocabulary for embeddings instead of the built-in one")) {}

  std::string vocabulary() const { return value(Vocabulary); }

private:
  cl::opt<std::string> Vocabulary;
};
const DistributionFlags Flags;

/// The agents of one pipeline, opened when there is a loop for them.
struct Decider {
  advice::Settings Options = Flags.settings();
  std::optional<Agents> Models;
  std::optional<embeddings::Vocabulary> Words; ///< if a model asks for embeddings
  bool Checked = false, Failed = false;

  /// Whether they may be asked.
  bool ready(const Function &F) {
    if (!Checked) {
      Checked = true;
      if (const Status Right = Options.check(); !Right) {
        advice::refuse(Options, F.getContext(), Right);
        Failed = true;
      }
    }
    return !Failed;
  }

  Agents &agents(const Function &F) {
    if (!Models) {
      OpenOptions Opening;
      Opening.deadline = *parseDuration(Options.Deadline); // check() has accepted it
      Opening.sharedBudget = true;
      Opening.context = F.getParent()->getSourceFileName();
      Models.emplace(Agents::open(
          DistributionEnvironment::specs(), Options.Model, Opening,
          [this](size_t Agent, const Model &Policy) { return signatureFor(Agent, Policy); }));
    }
    return *Models;
  }

  /// With embeddings, if the model asks for them.
  Expected<Signature> signatureFor(size_t Agent, const Model &Policy) {
    Signature Asks = DistributionEnvironment::specs()[Agent].signature;
    if (!DistributionEnvironment::wantsEmbeddings(Agent, Policy))
      return Asks;
    if (const Status Read = embeddings::readFor(Policy, PassName, Flags.vocabulary(), Words); !Read)
      return Read;
    for (TensorSpec &Next : DistributionEnvironment::embeddingsFor(Agent, Words->dimension()))
      Asks.inputs.push_back(std::move(Next));
    return Asks;
  }
};

/// "S1,S2 | S3": the nodes of each loop, in the order of their selection.
std::string describe(const DistributionEnvironment &Of) {
  std::string Text;
  for (const auto &[At, Node] : enumerate(Of.order()))
    Text += (Twine(!At                                                ? ""
                   : Of.loopOf(Node) == Of.loopOf(Of.order()[At - 1]) ? ","
                                                                      : " | ") +
             "S" + Twine(Node + 1))
                .str();
  return Text;
}

bool hasLoops(const Function &F) {
  SmallVector<std::pair<const BasicBlock *, const BasicBlock *>, 4> Back;
  FindFunctionBackedges(F, Back);
  return !Back.empty();
}

/// Canonicalizes the loops of a function as the vectorizer would, and visits the innermost ones.
template <typename Visit>
void forEachInnermost(Function &F, FunctionAnalysisManager &Manager, const Visit &To) {
  Manager.invalidate(F, LoopSimplifyPass().run(F, Manager));
  Manager.invalidate(F, LCSSAPass().run(F, Manager));
  auto &Loops = Manager.getResult<LoopAnalysis>(F);
  const Analyses Known{Manager.getResult<AAManager>(F),
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
    To(*L, Known);
}

/// The nodes of each of the loops into which a loop is divided. It is known by the instruction at
/// the end of an iteration.
using Divisions = DenseMap<const Instruction *, std::vector<BitVector>>;

class LoopDistribution : public PassInfoMixin<LoopDistribution> {
public:
  /// At that level; if there is none, at any.
  explicit LoopDistribution(std::optional<OptimizationLevel> Level)
      : Level(Level), Asked(std::make_shared<Decider>()) {
    if (!Level && Asked->Options.Model.empty())
      Asked->Options.Model = "function:heuristic"; // -passes=mlbridge-loop-distribution
  }

  /// Until it is known that a loop is divided, works on a copy. Canonical loops, but also an
  /// analysis that has been asked more, or earlier, would change what later passes make of the
  /// function: ScalarEvolution keeps what it proved, for example.
  PreservedAnalyses run(Function &F, FunctionAnalysisManager &Manager) {
    if (!Asked->ready(F) || (Level && !Asked->Options.wants(advice::levelOf(F, nameOf(*Level)))) ||
        Asked->Failed || !hasLoops(F))
      return PreservedAnalyses::all();
    const Divisions Decided = decideAll(F, Manager);
    if (Decided.empty())
      return PreservedAnalyses::all();
    Manager.invalidate(F, PreservedAnalyses::none()); // the copy had no analyses either
    size_t Divided = 0;
    forEachInnermost(F, Manager, [&](Loop &L, const Analyses &Known) {
      const auto Found =
          L.getLoopLatch() ? Decided.find(L.getLoopLatch()->getTerminator()) : Decided.end();
      if (Found == Decided.end() || !LoopGraph::refusal(L, Known).empty())
        return;
      const LoopGraph Graph(L, Known, mayCheck(F));
      if (Graph.nodes().size() != Found->second.front().size() || !Graph.isLegal(Found->second))
        return;
      distribute(Graph, Found->second, Known);
      ++Divided;
    });
    if (Divided < Decided.size()) // should never be: the copy was the same
      F.getContext().diagnose(PluginDiagnostic(
          DS_Warning, Twine("loop-distribution: ") + F.getName() +
                          ": a loop is left that was divided in a copy of the function"));
    return PreservedAnalyses::none();
  }

private:
  static bool mayCheck(const Function &F) { return !F.hasOptSize(); }

  /// Asks the agents, and divides the loops of a copy.
  Divisions decideAll(Function &F, FunctionAnalysisManager &Manager) {
    Divisions Made;
    Copy Trial(F, Manager);
    OptimizationRemarkEmitter Remarks(&F);
    forEachInnermost(Trial.function(), Manager, [&](Loop &L, const Analyses &Known) {
      const BasicBlock *const Latch = L.getLoopLatch();
      const Instruction *const End = Latch ? Trial.original(Latch->getTerminator()) : nullptr;
      if (Asked->Failed)
        return;
      std::vector<BitVector> Loops = decide(L, End, F, Known, Remarks);
      if (!Loops.empty())
        Made[End] = std::move(Loops);
    });
    return Made;
  }

  /// Of a loop of the copy, after whose iterations `F` has that instruction. Returns the loops into
  /// which it was divided, or nothing.
  std::vector<BitVector> decide(Loop &L, const Instruction *End, const Function &F,
                                const Analyses &Known, OptimizationRemarkEmitter &Remarks) {
    const BasicBlock *const Where = End ? End->getParent() : &F.getEntryBlock();
    const auto Leave = [&](const Twine &Why) {
      Remarks.emit([&] {
        return OptimizationRemarkMissed(PassName, "Left", L.getStartLoc(), Where)
               << ("loop is left as it is: " + Why).str();
      });
      return std::vector<BitVector>();
    };
    if (const std::string Why = LoopGraph::refusal(L, Known); !Why.empty())
      return Leave(Why);
    if (!End)
      return Leave("simplification gave it another end");
    const LoopGraph Graph(L, Known, mayCheck(F));
    const size_t Count = Graph.nodes().size();
    if (Count < 2)
      return Leave("it can't be divided");
    if (Count > MaxNodes)
      return Leave("it has more than " + Twine(MaxNodes) + " nodes");
    Agents &Models = Asked->agents(F);
    std::optional<LoopEmbeddings> Vectors;
    if (Asked->Words)
      Vectors.emplace(Graph, *Asked->Words);
    DistributionEnvironment Environment(Graph, Models.specs(), Vectors ? &*Vectors : nullptr);
    EpisodeOptions Episode;
    Episode.context = (F.getParent()->getSourceFileName() + ":" + F.getName()).str();
    const EpisodeResult Result = mlbridge::run(Environment, Models, Episode);
    if (!Result.status) {
      Asked->Failed = true;
      advice::giveUp(
          Asked->Options, F.getContext(),
          Status(Result.status.code(), F.getName().str() + ": " + Result.status.message()));
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
    distribute(Graph, Environment.loops(), Known);
    return Environment.loops();
  }

  std::optional<OptimizationLevel> Level;
  std::shared_ptr<Decider> Asked;
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

} // namespace mlbridge::distribution

extern "C" [[gnu::visibility("default")]] PassPluginLibraryInfo llvmGetPassPluginInfo() {
  return {LLVM_PLUGIN_API_VERSION, "LoopDistribution", "1", mlbridge::distribution::addTo};
}
