// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The loops of an operation, by linalg's interface.
#ifndef MLBRIDGE_MLIR_TILING_LOOPS_H
#define MLBRIDGE_MLIR_TILING_LOOPS_H

#include "mlir/Dialect/Linalg/IR/Linalg.h"

namespace mlbridge::tiling {

struct Loop {
  int64_t trips = 0;
  bool parallel = false;
  bool window = false;   ///< a dimension of an operand follows it and another loop
  unsigned operands = 0; ///< that follow it
  bool inOutput = false; ///< one of these is an output
  /// Dimensions of the operands of which neighbours in memory are neighbours in this loop, less
  /// those of operands that it strides through.
  int beside = 0;
};

/// Outermost first.
llvm::SmallVector<Loop> loopsOf(mlir::linalg::LinalgOp Op);

/// The size of the first output's elements.
int64_t elementBits(mlir::linalg::LinalgOp Op);

} // namespace mlbridge::tiling

#endif
