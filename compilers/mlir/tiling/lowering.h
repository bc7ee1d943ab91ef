// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The tiling of an operation once its tile sizes are chosen.
#ifndef MLBRIDGE_MLIR_TILING_LOWERING_H
#define MLBRIDGE_MLIR_TILING_LOWERING_H

#include "mlir/Dialect/Linalg/IR/Linalg.h"

namespace mlbridge::tiling {

struct Choice {
  llvm::SmallVector<int64_t> sizes; ///< of each loop, from 1 to its length
  bool vectorize = false;
};

struct Outcome {
  bool changed = false; ///< false if the operation is as it was
  std::string why;      ///< the reason why it wasn't changed, or not vectorized; or empty
};

/// Replaces the operation, which `refusal` accepts, with loops over tiles of these sizes, by
/// linalg's own tiling. With vectorize, tiles are divided once more, into what fits vector
/// registers of this width, and these parts become operations on vectors, by linalg's own
/// vectorization; if that can't be, tiles are as without it. All of this is done to a copy, which
/// takes the operation's place if it is valid.
Outcome tile(mlir::linalg::LinalgOp Op, const Choice &Chosen, int64_t VectorBits);

} // namespace mlbridge::tiling

#endif
