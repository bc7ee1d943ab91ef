// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// From a tile to operations on vectors.
#ifndef MLBRIDGE_MLIR_TILING_REGISTERS_H
#define MLBRIDGE_MLIR_TILING_REGISTERS_H

#include "mlir/Dialect/Linalg/IR/Linalg.h"

namespace mlbridge::tiling {

/// The loop along which vectors lie: where most elements are neighbours in memory. -1 if there is
/// none of more than one iteration.
int alongVectors(mlir::linalg::LinalgOp Op);

/// How many iterations of each loop of a tile go into registers at once.
llvm::SmallVector<int64_t> registersFor(mlir::linalg::LinalgOp Tile, int64_t VectorBits);

/// The same without loops of one iteration, so that what accesses a window, as a convolution does,
/// has a dimension of its own for each loop. Null if it still has none.
mlir::linalg::LinalgOp withoutWindows(mlir::RewriterBase &Rewriter, mlir::linalg::LinalgOp Op);

} // namespace mlbridge::tiling

#endif
