// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef MLBRIDGE_MLIR_TILING_VECTORS_H
#define MLBRIDGE_MLIR_TILING_VECTORS_H

#include "mlir/IR/PatternMatch.h"

namespace mlbridge::tiling {

/// Remembers the operations that are made, so that nothing else of a function is rewritten.
class NewOperations final : public mlir::RewriterBase::Listener {
public:
  void notifyOperationInserted(mlir::Operation *Op, mlir::OpBuilder::InsertPoint) override {
    All.insert(Op);
  }
  void notifyOperationErased(mlir::Operation *Op) override { All.remove(Op); }
  bool has(mlir::Operation *Op) const { return All.contains(Op); }
  llvm::SmallVector<mlir::Operation *> operations() const { return llvm::to_vector(All); }

private:
  llvm::SetVector<mlir::Operation *> All;
};

/// Lowers the operations that vectorizing made: sums stay in registers from iteration to iteration,
/// and products become multiply-add of vectors. AlongSums: the summands lie along vectors.
void lowerVectors(NewOperations &New, mlir::MLIRContext *Context, bool AlongSums);

/// Lets loops keep only the tensors that they change, which are then buffers without copies.
void simplifyTensors(NewOperations &New, mlir::MLIRContext *Context);

/// Puts loads and stores in place of transfers of vectors that have one element and no dimension:
/// MLIR lowers none where neighbours lie apart in memory.
void replaceSingleTransfers(mlir::Operation *In);

} // namespace mlbridge::tiling

#endif
