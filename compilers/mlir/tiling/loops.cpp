// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "loops.h"

using namespace mlir;

namespace mlbridge::tiling {

llvm::SmallVector<Loop> loopsOf(linalg::LinalgOp Op) {
  llvm::SmallVector<Loop> Loops;
  for (const auto [Trips, Kind] :
       llvm::zip_equal(Op.getStaticLoopRanges(), Op.getIteratorTypesArray())) {
    Loops.emplace_back();
    Loops.back().trips = Trips;
    Loops.back().parallel = Kind == utils::IteratorType::parallel;
  }
  for (OpOperand &Operand : Op->getOpOperands()) {
    const AffineMap Map = Op.getMatchingIndexingMap(&Operand);
    const int Rank = Map.getNumResults();
    for (const auto [Number, One] : llvm::enumerate(Loops)) {
      bool Follows = false, Beside = false;
      for (const auto [Dimension, Index] : llvm::enumerate(Map.getResults())) {
        if (!Index.isFunctionOfDim(Number))
          continue;
        Follows = true;
        if (!isa<AffineDimExpr>(Index))
          One.window = true;
        // One step of the loop is one element if the rest doesn't follow the loop.
        const AffineExpr Alone = getAffineDimExpr(Number, Op->getContext());
        AffineExpr Rest = Index - Alone;
        Rest = simplifyAffineExpr(Rest, Map.getNumDims(), 0);
        Beside = static_cast<int>(Dimension) + 1 == Rank && !Rest.isFunctionOfDim(Number);
      }
      One.operands += Follows;
      One.inOutput |= Follows && Op.isDpsInit(&Operand);
      One.beside += Beside ? Rank : Follows ? -Rank : 0;
    }
  }
  return Loops;
}

int64_t elementBits(linalg::LinalgOp Op) {
  const Type Element = getElementTypeOrSelf(Op.getDpsInits().front());
  return Element.isIntOrFloat() ? Element.getIntOrFloatBitWidth() : 64;
}

} // namespace mlbridge::tiling
