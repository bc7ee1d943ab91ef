// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "lowering.h"

#include "registers.h"
#include "vectors.h"

#include "mlir/Dialect/Linalg/Transforms/Transforms.h"
#include "mlir/Dialect/SCF/Transforms/TileUsingInterface.h"
#include "mlir/Dialect/Utils/StaticValueUtils.h"
#include "mlir/Interfaces/TilingInterface.h"

using namespace mlir;
using llvm::SmallVector;

namespace mlbridge::tiling {

namespace {

/// Each of these becomes code of its own.
constexpr int64_t MaxParts = 32;

/// The lengths of all loops are multiples of their sizes in each part.
void split(RewriterBase &Rewriter, linalg::LinalgOp Op, ArrayRef<int64_t> Sizes,
           SmallVectorImpl<linalg::LinalgOp> &Parts) {
  for (const auto [Loop, Trips, Size] : llvm::enumerate(Op.getStaticLoopRanges(), Sizes)) {
    const int64_t Whole = Trips / Size * Size;
    if (Whole == 0 || Whole == Trips)
      continue;
    Rewriter.setInsertionPoint(Op);
    const auto [First, Rest] = linalg::splitOp(Rewriter, cast<TilingInterface>(Op.getOperation()),
                                               Loop, Rewriter.getIndexAttr(Whole));
    for (TilingInterface Part : {First, Rest})
      split(Rewriter, cast<linalg::LinalgOp>(Part.getOperation()), Sizes, Parts);
    return;
  }
  Parts.push_back(Op);
}

/// Loops over tiles around the operation, reductions innermost; the tile, or null.
linalg::LinalgOp tileOnce(RewriterBase &Rewriter, linalg::LinalgOp Op, ArrayRef<int64_t> Sizes) {
  SmallVector<int64_t> Order, Steps;
  for (const bool Parallel : {true, false})
    for (const auto [Loop, Kind] : llvm::enumerate(Op.getIteratorTypesArray()))
      if ((Kind == utils::IteratorType::parallel) == Parallel)
        Order.push_back(Loop);
  for (const auto [Trips, Size] : llvm::zip_equal(Op.getStaticLoopRanges(), Sizes))
    Steps.push_back(Size < Trips ? Size : 0); // 0: the whole loop
  if (llvm::all_of(Steps, [](int64_t Step) { return Step == 0; }))
    return Op;
  scf::SCFTilingOptions Options;
  Options.setTileSizes(getAsIndexOpFoldResult(Op->getContext(), Steps)).setInterchange(Order);
  Rewriter.setInsertionPoint(Op);
  const FailureOr<scf::SCFTilingResult> Tiled =
      scf::tileUsingSCF(Rewriter, cast<TilingInterface>(Op.getOperation()), Options);
  if (failed(Tiled))
    return nullptr;
  Rewriter.replaceOp(Op, Tiled->replacements);
  return cast<linalg::LinalgOp>(Tiled->tiledOps.back());
}

} // namespace

std::string tile(linalg::LinalgOp Op, const Choice &Chosen, int64_t VectorBits) {
  MLIRContext *const Context = Op->getContext();
  Made New;
  IRRewriter Rewriter(Context, &New);
  Rewriter.setInsertionPoint(Op);
  if (!Chosen.vectorize)
    return tileOnce(Rewriter, Op, Chosen.sizes) ? "" : "it can't be tiled";
  const bool OnTensors = Op.hasPureTensorSemantics();
  const int Along = alongVectors(Op);
  if (Along < 0)
    return "it has one iteration";
  const bool AlongSums = Op.getIteratorTypesArray()[Along] == utils::IteratorType::reduction;
  int64_t Parts = 1;
  for (const auto [Trips, Size] : llvm::zip_equal(Op.getStaticLoopRanges(), Chosen.sizes))
    Parts *= Trips % Size ? 2 : 1;
  if (Parts > MaxParts) {
    tileOnce(Rewriter, Op, Chosen.sizes);
    return "there would be " + std::to_string(Parts) + " kinds of tiles";
  }
  SmallVector<linalg::LinalgOp> Tiles;
  split(Rewriter, Op, Chosen.sizes, Tiles);
  std::string Why;
  for (linalg::LinalgOp Part : Tiles) {
    linalg::LinalgOp Tile = tileOnce(Rewriter, Part, Chosen.sizes);
    if (!Tile) {
      Why = "it can't be tiled";
      continue;
    }
    const SmallVector<int64_t> Registers = registersFor(Tile, VectorBits);
    SmallVector<linalg::LinalgOp> Blocks;
    split(Rewriter, Tile, Registers, Blocks);
    for (linalg::LinalgOp Block : Blocks) {
      linalg::LinalgOp Inner = tileOnce(Rewriter, Block, Registers);
      if (!Inner) {
        Why = "it can't be tiled";
        continue;
      }
      linalg::LinalgOp Dense = withoutWindows(Rewriter, Inner);
      if (!Dense) {
        Why = "its accesses are not those of vectors";
        continue;
      }
      Rewriter.setInsertionPoint(Dense);
      const FailureOr<linalg::VectorizationResult> Vectors = linalg::vectorize(Rewriter, Dense);
      if (failed(Vectors)) {
        Why = "linalg can't vectorize it";
        continue;
      }
      Rewriter.replaceOp(Dense, Vectors->replacements);
    }
  }
  lowerVectors(New, Context, AlongSums);
  if (OnTensors)
    simplifyTensors(New, Context);
  return Why;
}

} // namespace mlbridge::tiling
