// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "distribution.h"

#include "llvm/Transforms/Utils/BasicBlockUtils.h"
#include "llvm/Transforms/Utils/Cloning.h"
#include "llvm/Transforms/Utils/LoopUtils.h"
#include "llvm/Transforms/Utils/LoopVersioning.h"

using namespace llvm;

namespace mlbridge::distribution {

/// One of the loops: a copy of the original, or that itself, for the last one.
struct Part {
  Loop *Of = nullptr;
  BitVector Needs;
  ValueToValueMapTy Copies; ///< empty for the original

  Value *copyOf(Value *Original) const {
    const auto At = Copies.find(Original);
    return At == Copies.end() ? Original : static_cast<Value *>(At->second);
  }
};

/// A loop's metadata identifies it, so that each has its own. Without distribute(enable): that is
/// done, and LLVM's own pass would do it again.
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

void distribute(const LoopGraph &Of, ArrayRef<BitVector> Loops, const Analyses &Its) {
  Loop &L = Of.loop();
  renewId(L); // the copy for arrays that overlap, too
  formLCSSA(L, Its.Dominators, &Its.Loops, &Its.Evolution);
  // The preheader is copied with the loop.
  SplitBlock(L.getLoopPreheader(), L.getLoopPreheader()->getTerminator(), &Its.Dominators,
             &Its.Loops);
  if (const auto Checks = Of.checks(Loops); !Checks.empty()) {
    const LoopAccessInfo &Info = Its.Accesses.getInfo(L, /*AllowPartial=*/true);
    LoopVersioning Versions(Info, Checks, &L, &Its.Loops, &Its.Dominators, &Its.Evolution);
    Versions.versionLoop();
    Versions.annotateLoopWithNoAlias();
  }
  std::vector<Part> Parts(Loops.size());
  for (auto [Its, Nodes] : zip_equal(Parts, Loops))
    Its.Needs = Of.needs(Nodes);
  Parts.back().Of = &L;

  BasicBlock *const Exit = L.getExitBlock();
  BasicBlock *const Before = L.getLoopPreheader()->getSinglePredecessor();
  BasicBlock *Next = L.getLoopPreheader();
  for (Part &Made : reverse(MutableArrayRef<Part>(Parts).drop_back())) {
    SmallVector<BasicBlock *, 2> Blocks;
    Made.Of = cloneLoopWithPreheader(Next, Before, &L, Made.Copies, ".distributed", &Its.Loops,
                                     &Its.Dominators, Blocks);
    Made.Copies[Exit] = Next;
    remapInstructionsInBlocks(Blocks, Made.Copies);
    Next = Made.Of->getLoopPreheader();
  }
  Before->getTerminator()->replaceUsesOfWith(L.getLoopPreheader(), Next);
  for (size_t I = 1; I < Parts.size(); ++I)
    Its.Dominators.changeImmediateDominator(Parts[I].Of->getLoopPreheader(),
                                            Parts[I - 1].Of->getLoopLatch());

  // What an earlier loop computes reaches the end through its exit block.
  for (PHINode &Phi : Exit->phis())
    for (Use &Value : Phi.incoming_values()) {
      const auto *Which = find(Of.instructions(), Value.get());
      const auto At = static_cast<unsigned>(Which - Of.instructions().begin());
      if (Which == Of.instructions().end() || Parts.back().Needs.test(At))
        continue;
      Part &Home = *find_if(Parts, [&](const Part &Its) { return Its.Needs.test(At); });
      PHINode *const Out = PHINode::Create(Phi.getType(), 1, Phi.getName());
      Out->insertBefore(Home.Of->getExitBlock()->begin());
      Out->addIncoming(Home.copyOf(Value), Home.Of->getLoopLatch());
      Value.set(Out);
    }
  for (const Part &Made : Parts) {
    removeOthers(Made, Of.instructions());
    renewId(*Made.Of);
  }
  Its.Evolution.forgetTopmostLoop(&L);
  Its.Evolution.forgetBlockAndLoopDispositions();
  Its.Accesses.clear();
}

} // namespace mlbridge::distribution
