// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "registers.h"

#include "loops.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Linalg/Transforms/Transforms.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"

using namespace mlir;
using llvm::SmallVector;

namespace mlbridge::tiling {

int alongVectors(linalg::LinalgOp Op) {
  const SmallVector<Loop> Loops = loopsOf(Op);
  int Along = -1;
  for (const auto [Number, One] : llvm::enumerate(Loops))
    if ((One.parallel || !One.window) && One.trips > 1 &&
        (Along < 0 || One.beside >= Loops[Along].beside))
      Along = static_cast<int>(Number);
  return Along;
}

/// A small number of iterations that leaves none over, or else this many.
static int64_t divisorOf(int64_t Trips, int64_t Otherwise) {
  for (const int64_t Size : {4, 6, 5, 3, 2})
    if (Trips % Size == 0)
      return Size;
  return std::min(Trips, Otherwise);
}

SmallVector<int64_t> registersFor(linalg::LinalgOp Tile, int64_t VectorBits) {
  const SmallVector<Loop> Loops = loopsOf(Tile);
  const int64_t Lanes = std::max<int64_t>(1, VectorBits / elementBits(Tile));
  SmallVector<int64_t> Sizes(Loops.size(), 1);
  const int Along = alongVectors(Tile);
  int Rows = -1, Depth = -1;
  if (Along < 0)
    return Sizes;
  const int64_t Wanted = (Loops[Along].parallel ? 2 : 4) * Lanes;
  Sizes[Along] = Loops[Along].trips >= Wanted ? Wanted : std::min(Loops[Along].trips, Lanes);
  // Rows use the contents of registers again.
  for (const auto [Number, One] : llvm::enumerate(Loops)) {
    if (static_cast<int>(Number) == Along || One.trips == 1)
      continue;
    if (One.parallel && One.operands < Tile->getNumOperands())
      Rows = Number;
    else if (!One.parallel && !One.window)
      Depth = Number;
  }
  if (Rows >= 0)
    Sizes[Rows] = Loops[Rows].trips >= 24 ? 6 : divisorOf(Loops[Rows].trips, 4);
  if (Depth >= 0)
    Sizes[Depth] = divisorOf(Loops[Depth].trips, 1);
  return Sizes;
}

namespace {

/// Part of an operand, one dimension for each loop that it follows.
struct Part {
  SmallVector<OpFoldResult> offsets, sizes, strides;
  SmallVector<int64_t> shape; ///< without the dimensions that have one element
  AffineMap map;
};

/// The part that the loops of `Left`, numbered anew, access. Nothing if that isn't a loop for each
/// dimension.
std::optional<Part> partOf(AffineMap Map, ArrayRef<int64_t> Trips, ArrayRef<int> Left) {
  MLIRContext *const Context = Map.getContext();
  const auto IndexOf = [&](int64_t Number) -> OpFoldResult {
    return IntegerAttr::get(IndexType::get(Context), Number);
  };
  SmallVector<AffineExpr> Replaced, Results;
  for (const int Loop : Left)
    Replaced.push_back(Loop < 0 ? getAffineConstantExpr(0, Context)
                                : getAffineDimExpr(Loop, Context));
  SmallVector<int64_t> Lengths;
  for (const auto [Loop, Length] : llvm::zip_equal(Left, Trips))
    if (Loop >= 0)
      Lengths.push_back(Length);
  Part Accessed;
  for (AffineExpr Next : Map.getResults()) {
    Next = simplifyAffineExpr(Next.replaceDims(Replaced), Lengths.size(), 0);
    int64_t Stride = 1;
    if (const auto Scaled = dyn_cast<AffineBinaryOpExpr>(Next);
        Scaled && Scaled.getKind() == AffineExprKind::Mul &&
        isa<AffineConstantExpr>(Scaled.getRHS())) {
      Stride = cast<AffineConstantExpr>(Scaled.getRHS()).getValue();
      Next = Scaled.getLHS();
    }
    const auto Loop = dyn_cast<AffineDimExpr>(Next);
    const auto Fixed = dyn_cast<AffineConstantExpr>(Next);
    if ((!Loop && !Fixed) || Stride < 1)
      return std::nullopt;
    Accessed.offsets.push_back(IndexOf(Fixed ? Fixed.getValue() : 0));
    Accessed.sizes.push_back(IndexOf(Loop ? Lengths[Loop.getPosition()] : 1));
    Accessed.strides.push_back(IndexOf(Stride));
    if (Loop && llvm::is_contained(Results, Next))
      return std::nullopt; // a diagonal
    if (Loop) {
      Accessed.shape.push_back(Lengths[Loop.getPosition()]);
      Results.push_back(Loop);
    }
  }
  Accessed.map = AffineMap::get(Lengths.size(), 0, Results, Context);
  return Accessed;
}

Value slice(RewriterBase &Rewriter, Location Where, Value Whole, const Part &Slice) {
  const auto &[Offsets, Sizes, Strides, Shape, Map] = Slice;
  if (const auto Type = dyn_cast<RankedTensorType>(Whole.getType()))
    return tensor::ExtractSliceOp::create(Rewriter, Where,
                                          RankedTensorType::get(Shape, Type.getElementType()),
                                          Whole, Offsets, Sizes, Strides);
  const auto Type = memref::SubViewOp::inferRankReducedResultType(
      Shape, cast<MemRefType>(Whole.getType()), Offsets, Sizes, Strides);
  return memref::SubViewOp::create(Rewriter, Where, Type, Whole, Offsets, Sizes, Strides);
}

} // namespace

linalg::LinalgOp withoutWindows(RewriterBase &Rewriter, linalg::LinalgOp Op) {
  const SmallVector<int64_t> Trips = Op.getStaticLoopRanges();
  SmallVector<int> Left;
  SmallVector<utils::IteratorType> Kinds;
  for (const auto [Number, One] : llvm::enumerate(loopsOf(Op))) {
    const bool Drop = One.trips == 1 && (One.parallel || One.window);
    Left.push_back(Drop ? -1 : static_cast<int>(Kinds.size()));
    if (!Drop)
      Kinds.push_back(Op.getIteratorTypesArray()[Number]);
  }
  std::vector<std::optional<Part>> Parts;
  for (OpOperand &Operand : Op->getOpOperands()) {
    Parts.push_back(partOf(Op.getMatchingIndexingMap(&Operand), Trips, Left));
    if (!Parts.back())
      return nullptr;
  }
  if (Kinds.size() == Trips.size())
    return Op;
  Rewriter.setInsertionPoint(Op);
  SmallVector<Value> Inputs, Outputs;
  SmallVector<AffineMap> Maps;
  SmallVector<Type> Results;
  for (OpOperand &Operand : Op->getOpOperands()) {
    const Part &Accessed = *Parts[Operand.getOperandNumber()];
    const Value Slice = isa<ShapedType>(Operand.get().getType())
                            ? slice(Rewriter, Op.getLoc(), Operand.get(), Accessed)
                            : Operand.get();
    (Op.isDpsInput(&Operand) ? Inputs : Outputs).push_back(Slice);
    Maps.push_back(Accessed.map);
    if (Op.isDpsInit(&Operand) && isa<TensorType>(Slice.getType()))
      Results.push_back(Slice.getType());
  }
  auto Dense =
      linalg::GenericOp::create(Rewriter, Op.getLoc(), Results, Inputs, Outputs, Maps, Kinds);
  Rewriter.cloneRegionBefore(Op->getRegion(0), Dense.getRegion(), Dense.getRegion().begin());
  Dense.walk([&](linalg::IndexOp Index) {
    Rewriter.setInsertionPoint(Index);
    const int Loop = Left[Index.getDim()];
    if (Loop < 0)
      Rewriter.replaceOpWithNewOp<arith::ConstantIndexOp>(Index, 0);
    else
      Rewriter.replaceOpWithNewOp<linalg::IndexOp>(Index, Loop);
  });
  Rewriter.setInsertionPointAfter(Dense);
  SmallVector<Value> Replaced;
  for (const auto [Result, Init] : llvm::zip(Dense.getResults(), Op.getDpsInitsMutable())) {
    const Part &Accessed = *Parts[Init.getOperandNumber()];
    Replaced.push_back(tensor::InsertSliceOp::create(Rewriter, Op.getLoc(), Result, Init.get(),
                                                     Accessed.offsets, Accessed.sizes,
                                                     Accessed.strides));
  }
  Rewriter.replaceOp(Op, Replaced);
  return Dense;
}

} // namespace mlbridge::tiling
