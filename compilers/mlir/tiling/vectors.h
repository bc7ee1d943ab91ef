// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef MLBRIDGE_MLIR_TILING_VECTORS_H
#define MLBRIDGE_MLIR_TILING_VECTORS_H

#include "mlir/IR/PatternMatch.h"

namespace mlbridge::tiling {

/// Remembers what is made, so that nothing else of a function is rewritten.
class Made final : public mlir::RewriterBase::Listener {
public:
  void notifyOperationInserted(mlir::Operation *Op, mlir::OpBuilder::InsertPoint) override {
    Its.insert(Op);
  }
  void notifyOperationErased(mlir::Operation *Op) override { Its.remove(Op); }
  bool has(mlir::Operation *Op) const { return Its.contains(Op); }
  llvm::SmallVector<mlir::Operation *> operations() const { return llvm::to_vector(Its); }

private:
  llvm::SetVector<mlir::Operation *> Its;
};

/// Of what was made by vectorizing: sums stay in registers from iteration to iteration, and
/// products become multiply-add of vectors. AlongSums: what is summed lies along vectors.
void lowerVectors(Made &New, mlir::MLIRContext *Context, bool AlongSums);

/// Loops keep only the tensors that they change, which are then buffers without copies.
void simplifyTensors(Made &New, mlir::MLIRContext *Context);

/// Loads and stores in place of transfers of vectors that have one element and no dimension: MLIR
/// lowers none where neighbours lie apart in memory.
void replaceSingleTransfers(mlir::Operation *In);

} // namespace mlbridge::tiling

#endif
