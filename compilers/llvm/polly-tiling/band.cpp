// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "band.h"

#include "llvm/Analysis/ScalarEvolutionExpressions.h"
#include "llvm/IR/DataLayout.h"
#include "llvm/IR/Instructions.h"
#include "llvm/IR/Module.h"

#include <algorithm>

using namespace llvm;

namespace mlbridge::polly_tiling {

namespace {

/// The growth of an address in an iteration of the loop; null if it doesn't grow.
const SCEV *stepIn(const SCEV *Address, const Loop *L, ScalarEvolution &Evolution) {
  while (const auto *Recurrence = dyn_cast<SCEVAddRecExpr>(Address)) {
    if (Recurrence->getLoop() == L)
      return Recurrence->getStepRecurrence(Evolution);
    Address = Recurrence->getStart();
  }
  return Evolution.isLoopInvariant(Address, L) ? nullptr : Address;
}

tiles_loop describe(const Loop &L, ScalarEvolution &Evolution) {
  tiles_loop Row = {};
  Row.trips = Evolution.getSmallConstantTripCount(&L);
  // A number that only the width of a counter limits says nothing.
  const unsigned Most = Evolution.getSmallConstantMaxTripCount(&L);
  Row.most = Most < (1u << 30) ? Most : 0;
  for (const Loop *Inner : L.getLoopsInPreorder())
    Row.nests += Inner->isInnermost();
  Row.parallel = 1;
  // Values that an iteration hands to the next, such as a sum.
  for (PHINode &Next : L.getHeader()->phis())
    if (!Evolution.isSCEVable(Next.getType()) || !isa<SCEVAddRecExpr>(Evolution.getSCEV(&Next))) {
      ++Row.statements;
      Row.parallel = 0;
    }
  const DataLayout &Layout = L.getHeader()->getModule()->getDataLayout();
  for (BasicBlock *Block : L.blocks())
    for (Instruction &Next : *Block) {
      const Value *Pointer = getLoadStorePointerOperand(&Next);
      if (!Pointer)
        continue;
      ++Row.accesses;
      Row.statements += isa<StoreInst>(Next);
      const SCEV *Step = stepIn(Evolution.getSCEV(const_cast<Value *>(Pointer)), &L, Evolution);
      const auto *Constant = dyn_cast_or_null<SCEVConstant>(Step);
      const TypeSize Size = Layout.getTypeStoreSize(getLoadStoreType(&Next));
      const uint64_t Bytes = Size.getKnownMinValue();
      Row.bytes = std::max(Row.bytes, static_cast<int>(Bytes));
      Row.temporal += !Step;
      Row.spatial += Constant && !Size.isScalable() && Constant->getAPInt().abs() == Bytes;
      // Iterations that write where others do depend on their order.
      if (!Step && isa<StoreInst>(Next))
        Row.parallel = 0;
    }
  return Row;
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
    const auto Rank = [](const std::vector<tiles_loop> &Loops) {
      return std::pair(Loops.size(), Loops.empty() ? 0 : Loops.front().accesses);
    };
    if (Rank(Band) > Rank(Best))
      Best = std::move(Band);
  }
  return Best;
}

} // namespace mlbridge::polly_tiling
