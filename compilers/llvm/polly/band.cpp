// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "band.h"

#include "llvm/Analysis/ScalarEvolutionExpressions.h"
#include "llvm/IR/DataLayout.h"
#include "llvm/IR/Instructions.h"
#include "llvm/IR/Module.h"

#include <algorithm>

using namespace llvm;

namespace mlbridge::polly {

namespace {

/// By how much an address grows in an iteration of the loop; null if by nothing.
const SCEV *stepIn(const SCEV *Address, const Loop *Of, ScalarEvolution &Evolution) {
  while (const auto *Its = dyn_cast<SCEVAddRecExpr>(Address)) {
    if (Its->getLoop() == Of)
      return Its->getStepRecurrence(Evolution);
    Address = Its->getStart();
  }
  return Evolution.isLoopInvariant(Address, Of) ? nullptr : Address;
}

tiles_loop describe(const Loop &Of, ScalarEvolution &Evolution) {
  tiles_loop Its = {};
  Its.trips = Evolution.getSmallConstantTripCount(&Of);
  // What the width of a counter allows says nothing.
  const unsigned Most = Evolution.getSmallConstantMaxTripCount(&Of);
  Its.most = Most < (1u << 30) ? Most : 0;
  for (const Loop *Inner : Of.getLoopsInPreorder())
    Its.nests += Inner->isInnermost();
  Its.parallel = 1;
  // What an iteration hands to the next, such as a sum.
  for (PHINode &Next : Of.getHeader()->phis())
    if (!Evolution.isSCEVable(Next.getType()) || !isa<SCEVAddRecExpr>(Evolution.getSCEV(&Next))) {
      ++Its.statements;
      Its.parallel = 0;
    }
  const DataLayout &Layout = Of.getHeader()->getModule()->getDataLayout();
  for (BasicBlock *Block : Of.blocks())
    for (Instruction &Next : *Block) {
      const Value *Pointer = getLoadStorePointerOperand(&Next);
      if (!Pointer)
        continue;
      ++Its.accesses;
      Its.statements += isa<StoreInst>(Next);
      const SCEV *Step = stepIn(Evolution.getSCEV(const_cast<Value *>(Pointer)), &Of, Evolution);
      const auto *Constant = dyn_cast_or_null<SCEVConstant>(Step);
      const TypeSize Size = Layout.getTypeStoreSize(getLoadStoreType(&Next));
      const uint64_t Bytes = Size.getKnownMinValue();
      Its.bytes = std::max(Its.bytes, static_cast<int>(Bytes));
      Its.temporal += !Step;
      Its.spatial += Constant && !Size.isScalable() && Constant->getAPInt().abs() == Bytes;
      // Iterations that write where others do depend on their order.
      if (!Step && isa<StoreInst>(Next))
        Its.parallel = 0;
    }
  return Its;
}

} // namespace

std::vector<tiles_loop> bandOf(const LoopInfo &Loops, ScalarEvolution &Evolution) {
  std::vector<tiles_loop> Best;
  for (const Loop *Innermost : Loops.getLoopsInPreorder()) {
    if (!Innermost->isInnermost())
      continue;
    std::vector<tiles_loop> Band;
    for (const Loop *Next = Innermost; Next && Band.size() < TILES_LOOPS;
         Next = Next->getParentLoop())
      Band.push_back(describe(*Next, Evolution));
    std::reverse(Band.begin(), Band.end());
    const auto Rank = [](const std::vector<tiles_loop> &Of) {
      return std::pair(Of.size(), Of.empty() ? 0 : Of.front().accesses);
    };
    if (Rank(Band) > Rank(Best))
      Best = std::move(Band);
  }
  return Best;
}

} // namespace mlbridge::polly
