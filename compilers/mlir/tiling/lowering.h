// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What is done to an operation once its tile sizes are chosen.
#ifndef MLBRIDGE_MLIR_TILING_LOWERING_H
#define MLBRIDGE_MLIR_TILING_LOWERING_H

#include "mlir/Dialect/Linalg/IR/Linalg.h"

namespace mlbridge::tiling {

struct Choice {
  llvm::SmallVector<int64_t> sizes; ///< of each loop, from 1 to its length
  bool vectorize = false;
};

/// Replaces the operation, whose loops have known lengths, with loops over tiles of these sizes, by
/// linalg's own tiling. With vectorize, tiles are divided once more, into what fits vector
/// registers of this width, and these parts become operations on vectors, by linalg's own
/// vectorization. Returns why that was left out, or nothing; then tiles are as without it.
std::string tile(mlir::linalg::LinalgOp Op, const Choice &Chosen, int64_t VectorBits);

} // namespace mlbridge::tiling

#endif
