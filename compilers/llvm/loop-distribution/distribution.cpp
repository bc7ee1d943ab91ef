// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "distribution.h"

#include "llvm/Transforms/Utils/BasicBlockUtils.h"
#include "llvm/Transforms/Utils/Cloning.h"
#include "llvm/Transforms/Utils/LoopUtils.h"
#include "llvm/Transforms/Utils/LoopVersioning.h"

using namespace llvm;

namespace mlbridge::loop_distribution {

/// One of the new loops: a copy of the original, or the original itself, for the last one.
struct Part {
  Loop *L = nullptr;
  BitVector Needs;
  ValueToValueMapTy Copies; ///< empty for the original

  Value *copyOf(Value *Original) const {
    const auto At = Copies.find(Original);
    return At == Copies.end() ? Original : static_cast<Value *>(At->second);
  }
};

/// Gives a loop metadata of its own, which identifies it. It is without distribute(enable): LLVM's
/// own pass would distribute it again.
static void renewId(Loop &L) {
  if (MDNode *const Old = L.getLoopID())
    L.setLoopID(makePostTransformationMetadata(L.getHeader()->getContext(), Old,
                                               {"llvm.loop.distribute."}, {}));
}

static void removeOthers(const Part &From, ArrayRef<Instruction *> Originals) {
  for (size_t At = Originals.size(); At-- > 0;) {
    if (From.Needs.test(static_cast<unsigned>(At)))
      continue;
    auto *const I = cast<Instruction>(From.copyOf(Originals[At]));
    if (!I->use_empty())
      I->replaceAllUsesWith(PoisonValue::get(I->getType()));
    I->eraseFromParent();
  }
}

void distribute(const LoopGraph &Graph, ArrayRef<BitVector> Loops, const Analyses &Analysis) {
  Loop &L = Graph.loop();
  renewId(L); // the copy for arrays that overlap, too
  formLCSSA(L, Analysis.Dominators, &Analysis.Loops, &Analysis.Evolution);
  // The preheader is copied with the loop.
  SplitBlock(L.getLoopPreheader(), L.getLoopPreheader()->getTerminator(), &Analysis.Dominators,
             &Analysis.Loops);
  if (const auto Checks = Graph.checks(Loops); !Checks.empty()) {
    const LoopAccessInfo &Info = Analysis.Accesses.getInfo(L, /*AllowPartial=*/true);
    LoopVersioning Versions(Info, Checks, &L, &Analysis.Loops, &Analysis.Dominators,
                            &Analysis.Evolution);
    Versions.versionLoop();
    Versions.annotateLoopWithNoAlias();
  }
  std::vector<Part> Parts(Loops.size());
  for (auto [New, Nodes] : zip_equal(Parts, Loops))
    New.Needs = Graph.needs(Nodes);
  Parts.back().L = &L;

  BasicBlock *const Exit = L.getExitBlock();
  BasicBlock *const Before = L.getLoopPreheader()->getSinglePredecessor();
  BasicBlock *Next = L.getLoopPreheader();
  for (Part &New : reverse(MutableArrayRef<Part>(Parts).drop_back())) {
    SmallVector<BasicBlock *, 2> Blocks;
    New.L = cloneLoopWithPreheader(Next, Before, &L, New.Copies, ".distributed", &Analysis.Loops,
                                   &Analysis.Dominators, Blocks);
    New.Copies[Exit] = Next;
    remapInstructionsInBlocks(Blocks, New.Copies);
    Next = New.L->getLoopPreheader();
  }
  Before->getTerminator()->replaceUsesOfWith(L.getLoopPreheader(), Next);
  for (size_t I = 1; I < Parts.size(); ++I)
    Analysis.Dominators.changeImmediateDominator(Parts[I].L->getLoopPreheader(),
                                                 Parts[I - 1].L->getLoopLatch());

  // A value of an earlier loop reaches the end through that loop's exit block.
  for (PHINode &Phi : Exit->phis())
    for (Use &Value : Phi.incoming_values()) {
      const auto *Instruction = find(Graph.instructions(), Value.get());
      const auto Number = static_cast<unsigned>(Instruction - Graph.instructions().begin());
      if (Instruction == Graph.instructions().end() || Parts.back().Needs.test(Number))
        continue;
      Part &Home = *find_if(Parts, [&](const Part &New) { return New.Needs.test(Number); });
      PHINode *const Out = PHINode::Create(Phi.getType(), 1, Phi.getName());
      Out->insertBefore(Home.L->getExitBlock()->begin());
      Out->addIncoming(Home.copyOf(Value), Home.L->getLoopLatch());
      Value.set(Out);
    }
  for (const Part &New : Parts) {
    removeOthers(New, Graph.instructions());
    renewId(*New.L);
  }
  Analysis.Evolution.forgetTopmostLoop(&L);
  Analysis.Evolution.forgetBlockAndLoopDispositions();
  Analysis.Accesses.clear();
}

} // namespace mlbridge::loop_distribution
