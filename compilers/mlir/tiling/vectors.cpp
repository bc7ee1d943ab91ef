// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "vectors.h"

#include "mlir/Dialect/Affine/IR/AffineOps.h"
#include "mlir/Dialect/Linalg/Transforms/Hoisting.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/MemRef/Transforms/Transforms.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/Dialect/Vector/Transforms/LoweringPatterns.h"
#include "mlir/Dialect/Vector/Transforms/VectorRewritePatterns.h"
#include "mlir/IR/Dominance.h"
#include "mlir/Interfaces/VectorInterfaces.h"
#include "mlir/Transforms/CSE.h"
#include "mlir/Transforms/GreedyPatternRewriteDriver.h"
#include "mlir/Transforms/LoopInvariantCodeMotionUtils.h"

using namespace mlir;

namespace mlbridge::tiling {

namespace {

void rewrite(NewOperations &New, RewritePatternSet &&Patterns) {
  GreedyRewriteConfig Config;
  Config.setStrictness(GreedyRewriteStrictness::ExistingAndNewOps).setListener(&New);
  (void)applyOpPatternsGreedily(New.operations(), std::move(Patterns), Config);
}

/// Moves loads and stores that a loop over memrefs repeats in each iteration before and behind it.
/// The loop may be another one afterwards.
void hoistOnMemrefs(IRRewriter &Rewriter, scf::ForOp Loop) {
  // Linalg's function replaces loops in the operation that it is given, but not that itself.
  Rewriter.setInsertionPoint(Loop);
  auto Around = scf::ExecuteRegionOp::create(Rewriter, Loop.getLoc(), TypeRange());
  Block *const Body = Rewriter.createBlock(&Around.getRegion());
  auto End = scf::YieldOp::create(Rewriter, Loop.getLoc());
  Rewriter.moveOpBefore(Loop, End);
  // Loads and stores of one place have the same indices then.
  DominanceInfo Dominance;
  eliminateCommonSubExpressions(Rewriter, Dominance, Loop);
  linalg::hoistRedundantVectorTransfers(Around);
  Rewriter.eraseOp(End);
  Rewriter.inlineBlockBefore(Body, Around);
  Rewriter.eraseOp(Around);
}

/// Like hoistOnMemrefs, for a loop over tensors.
void hoistOnTensors(IRRewriter &Rewriter, scf::ForOp Loop) {
  SmallVector<LoopLikeOpInterface> Inner; // innermost first
  Loop->walk([&](LoopLikeOpInterface Next) { Inner.push_back(Next); });
  for (LoopLikeOpInterface Next : Inner) {
    moveLoopInvariantCode(Next);
    unsigned Stores = 0;
    Next->walk([&](vector::TransferWriteOp) { ++Stores; });
    // Bufferization would copy one of two parts of a tensor outside of a loop.
    if (Stores == 1)
      (void)hoistLoopInvariantSubsets(Rewriter, Next);
  }
}

void hoist(NewOperations &New, MLIRContext *Context) {
  SmallVector<scf::ForOp> Outermost;
  for (Operation *Op : New.operations())
    if (auto Loop = dyn_cast<scf::ForOp>(Op); Loop && !New.has(Loop->getParentOp()))
      Outermost.push_back(Loop);
  IRRewriter Rewriter(Context, &New);
  for (scf::ForOp Loop : Outermost)
    if (Loop->getNumResults())
      hoistOnTensors(Rewriter, Loop);
    else
      hoistOnMemrefs(Rewriter, Loop);
}

} // namespace

void lowerVectors(NewOperations &New, MLIRContext *Context, bool AlongSums) {
  RewritePatternSet Contracts(Context);
  vector::populateVectorReductionToContractPatterns(Contracts);
  vector::populateVectorTransferPermutationMapLoweringPatterns(Contracts);
  memref::populateFoldMemRefAliasOpPatterns(Contracts);
  rewrite(New, std::move(Contracts));
  RewritePatternSet Products(Context);
  vector::populateVectorContractLoweringPatterns(
      Products, AlongSums ? vector::VectorContractLowering::Dot
                          : vector::VectorContractLowering::OuterProduct);
  vector::populateVectorOuterProductLoweringPatterns(Products);
  vector::populateVectorMultiReductionLoweringPatterns(
      Products, AlongSums ? vector::VectorMultiReductionLowering::InnerReduction
                          : vector::VectorMultiReductionLowering::InnerParallel);
  rewrite(New, std::move(Products));
  hoist(New, Context);
}

void simplifyTensors(NewOperations &New, MLIRContext *Context) {
  RewritePatternSet Patterns(Context);
  scf::ForOp::getCanonicalizationPatterns(Patterns, Context);
  tensor::ExtractSliceOp::getCanonicalizationPatterns(Patterns, Context);
  tensor::InsertSliceOp::getCanonicalizationPatterns(Patterns, Context);
  rewrite(New, std::move(Patterns));
}

void replaceSingleTransfers(Operation *In) {
  SmallVector<VectorTransferOpInterface> Transfers;
  In->walk([&](VectorTransferOpInterface Next) { Transfers.push_back(Next); });
  IRRewriter Rewriter(In->getContext());
  for (VectorTransferOpInterface Transfer : Transfers) {
    Operation *const Op = Transfer;
    if (Transfer.getVectorType().getRank() != 0 || Transfer.getMask())
      continue;
    Rewriter.setInsertionPoint(Op);
    const Location Where = Op->getLoc();
    const Value From = Transfer.getBase();
    const ValueRange At = Transfer.getIndices();
    const bool OnMemref = isa<MemRefType>(From.getType());
    if (auto Read = dyn_cast<vector::TransferReadOp>(Op)) {
      const Value Element = OnMemref ? Value(memref::LoadOp::create(Rewriter, Where, From, At))
                                     : Value(tensor::ExtractOp::create(Rewriter, Where, From, At));
      Rewriter.replaceOpWithNewOp<vector::BroadcastOp>(Op, Read.getVectorType(), Element);
      continue;
    }
    auto Write = cast<vector::TransferWriteOp>(Op);
    const Value Element =
        vector::ExtractOp::create(Rewriter, Where, Write.getVector(), ArrayRef<int64_t>{});
    if (OnMemref)
      Rewriter.replaceOpWithNewOp<memref::StoreOp>(Op, Element, From, At);
    else
      Rewriter.replaceOpWithNewOp<tensor::InsertOp>(Op, Element, From, At);
  }
}

} // namespace mlbridge::tiling
