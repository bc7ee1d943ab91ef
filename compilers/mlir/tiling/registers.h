// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// From a tile to operations on vectors.
#ifndef MLBRIDGE_MLIR_TILING_REGISTERS_H
#define MLBRIDGE_MLIR_TILING_REGISTERS_H

#include "mlir/Dialect/Linalg/IR/Linalg.h"

namespace mlbridge::tiling {

/// The loop along which vectors lie: where most elements are neighbours in memory. -1 if there is
/// none of more than one iteration.
int alongVectors(mlir::linalg::LinalgOp Op);

/// The number of iterations of each loop of a tile that go into registers at once.
llvm::SmallVector<int64_t> registersFor(mlir::linalg::LinalgOp Tile, int64_t VectorBits);

/// The same operation without loops of one iteration, so that an operand with a window, as in a
/// convolution, has a dimension of its own for each loop. Null if it still has none.
mlir::linalg::LinalgOp withoutWindows(mlir::RewriterBase &Rewriter, mlir::linalg::LinalgOp Op);

} // namespace mlbridge::tiling

#endif
