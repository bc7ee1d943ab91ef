// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "lowering.h"

#include "legality.h"
#include "registers.h"
#include "scratch.h"
#include "vectors.h"

#include "mlir/Dialect/Linalg/Transforms/Transforms.h"
#include "mlir/Dialect/SCF/Transforms/TileUsingInterface.h"
#include "mlir/Dialect/Utils/StaticValueUtils.h"
#include "mlir/Interfaces/TilingInterface.h"

using namespace mlir;
using llvm::SmallVector;

namespace mlbridge::tiling {

namespace {

/// The most kinds of tiles, each of which becomes code of its own.
constexpr int64_t MaxParts = 32;

/// Divides an operation into parts in which the lengths of all loops are multiples of their sizes.
/// False if that can't be.
bool split(RewriterBase &Rewriter, linalg::LinalgOp Op, ArrayRef<int64_t> Sizes,
           SmallVectorImpl<linalg::LinalgOp> &Parts) {
  for (const auto [Loop, Trips, Size] : llvm::enumerate(Op.getStaticLoopRanges(), Sizes)) {
    const int64_t Whole = Trips / Size * Size;
    if (Whole == 0 || Whole == Trips)
      continue;
    Rewriter.setInsertionPoint(Op);
    const auto [First, Rest] = linalg::splitOp(Rewriter, cast<TilingInterface>(Op.getOperation()),
                                               Loop, Rewriter.getIndexAttr(Whole));
    for (TilingInterface Part : {First, Rest})
      if (!Part || !split(Rewriter, cast<linalg::LinalgOp>(Part.getOperation()), Sizes, Parts))
        return false;
    return true;
  }
  Parts.push_back(Op);
  return true;
}

/// Puts loops over tiles around the operation, reductions innermost. Returns the tile, or null.
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
  if (failed(Tiled) || Tiled->tiledOps.empty())
    return nullptr;
  Rewriter.replaceOp(Op, Tiled->replacements);
  return dyn_cast<linalg::LinalgOp>(Tiled->tiledOps.back());
}

constexpr StringRef NotTiled = "linalg can't tile it";

/// Puts tiles of vectors in the operation's place. Returns why not, if that fails halfway.
std::string vectorize(linalg::LinalgOp Op, ArrayRef<int64_t> Sizes, int64_t VectorBits) {
  MLIRContext *const Context = Op->getContext();
  Operation *const Function = Op->getParentOp();
  NewOperations New;
  IRRewriter Rewriter(Context, &New);
  const bool OnTensors = Op.hasPureTensorSemantics();
  const int Along = alongVectors(Op);
  const bool AlongSums = Op.getIteratorTypesArray()[Along] == utils::IteratorType::reduction;
  SmallVector<linalg::LinalgOp> Tiles;
  if (!split(Rewriter, Op, Sizes, Tiles))
    return NotTiled.str();
  for (linalg::LinalgOp Part : Tiles) {
    linalg::LinalgOp Tile = tileOnce(Rewriter, Part, Sizes);
    if (!Tile)
      return NotTiled.str();
    const SmallVector<int64_t> Registers = registersFor(Tile, VectorBits);
    SmallVector<linalg::LinalgOp> Blocks;
    if (!split(Rewriter, Tile, Registers, Blocks))
      return NotTiled.str();
    for (linalg::LinalgOp Block : Blocks) {
      linalg::LinalgOp Inner = tileOnce(Rewriter, Block, Registers);
      if (!Inner)
        return NotTiled.str();
      linalg::LinalgOp Dense = withoutWindows(Rewriter, Inner);
      if (!Dense)
        return "its accesses are not those of vectors";
      Rewriter.setInsertionPoint(Dense);
      const FailureOr<linalg::VectorizationResult> Vectors = linalg::vectorize(Rewriter, Dense);
      if (failed(Vectors))
        return "linalg can't vectorize it";
      Rewriter.replaceOp(Dense, Vectors->replacements);
    }
  }
  lowerVectors(New, Context, AlongSums);
  if (OnTensors)
    simplifyTensors(New, Context);
  replaceSingleTransfers(Function);
  return "";
}

/// Why tiles of vectors aren't tried; empty if they are.
std::string refusesVectorTiles(linalg::LinalgOp Op, ArrayRef<int64_t> Sizes) {
  if (alongVectors(Op) < 0)
    return "it has one iteration";
  int64_t Parts = 1;
  for (const auto [Trips, Size] : llvm::zip_equal(Op.getStaticLoopRanges(), Sizes))
    Parts *= Trips % Size ? 2 : 1;
  if (Parts > MaxParts)
    return "there would be " + std::to_string(Parts) + " kinds of tiles";
  return refusesVectors(Op);
}

} // namespace

Outcome tile(linalg::LinalgOp Op, const Choice &Chosen, int64_t VectorBits) {
  std::string Why;
  if (Chosen.vectorize) {
    Why = refusesVectorTiles(Op, Chosen.sizes);
    if (Why.empty()) {
      Scratch Trial(Op);
      {
        const Quiet Silence(Op->getContext());
        Why = vectorize(Trial.copy(), Chosen.sizes, VectorBits);
      }
      if (Why.empty())
        Why = Trial.replaceOriginal();
      if (Why.empty())
        return {true, ""};
    }
  }
  if (ArrayRef(Chosen.sizes) == ArrayRef(Op.getStaticLoopRanges()))
    return {false, Why};
  Scratch Trial(Op);
  IRRewriter Rewriter(Op->getContext());
  bool Tiled = false;
  {
    const Quiet Silence(Op->getContext());
    Tiled = tileOnce(Rewriter, Trial.copy(), Chosen.sizes) != nullptr;
  }
  const std::string Invalid = Tiled ? Trial.replaceOriginal() : NotTiled.str();
  return Invalid.empty() ? Outcome{true, Why} : Outcome{false, Invalid};
}

} // namespace mlbridge::tiling
