// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "vectors.h"

#include "mlir/Dialect/Affine/IR/AffineOps.h"
#include "mlir/Dialect/Linalg/Transforms/Hoisting.h"
#include "mlir/Dialect/MemRef/Transforms/Transforms.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/Dialect/Vector/Transforms/LoweringPatterns.h"
#include "mlir/Dialect/Vector/Transforms/VectorRewritePatterns.h"
#include "mlir/IR/Dominance.h"
#include "mlir/Transforms/CSE.h"
#include "mlir/Transforms/GreedyPatternRewriteDriver.h"
#include "mlir/Transforms/LoopInvariantCodeMotionUtils.h"

using namespace mlir;

namespace mlbridge::tiling {

namespace {

void rewrite(Made &New, RewritePatternSet &&Patterns) {
  GreedyRewriteConfig Config;
  Config.setStrictness(GreedyRewriteStrictness::ExistingAndNewOps).setListener(&New);
  (void)applyOpPatternsGreedily(New.operations(), std::move(Patterns), Config);
}

/// Sums that an innermost loop loads and stores again are loaded before it and stored after it.
void hoist(Made &New, MLIRContext *Context) {
  SmallVector<scf::ForOp> Outermost;
  for (Operation *Op : New.operations())
    if (auto Loop = dyn_cast<scf::ForOp>(Op); Loop && !New.has(Loop->getParentOp()))
      Outermost.push_back(Loop);
  IRRewriter Rewriter(Context, &New);
  DominanceInfo Dominance;
  for (scf::ForOp Loop : Outermost)
    if (Loop->getNumResults() == 0) { // on memrefs
      // Loads and stores of one place have the same indices then.
      eliminateCommonSubExpressions(Rewriter, Dominance, Loop);
      linalg::hoistRedundantVectorTransfers(Loop);
    }
  for (scf::ForOp Loop : Outermost) {
    if (Loop->getNumResults() == 0)
      continue;
    SmallVector<LoopLikeOpInterface> Inner; // innermost first
    Loop->walk([&](LoopLikeOpInterface Next) { Inner.push_back(Next); });
    for (LoopLikeOpInterface Next : Inner) {
      moveLoopInvariantCode(Next);
      (void)hoistLoopInvariantSubsets(Rewriter, Next);
    }
  }
}

} // namespace

void lowerVectors(Made &New, MLIRContext *Context, bool AlongSums) {
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

} // namespace mlbridge::tiling
