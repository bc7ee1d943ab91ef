// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What the model is told of an operation, and how its answer is read; README.md has the tables.
#ifndef MLBRIDGE_MLIR_TILING_QUESTION_H
#define MLBRIDGE_MLIR_TILING_QUESTION_H

#include "legality.h"
#include "lowering.h"

#include <mlbridge/runner.h>

namespace mlbridge::tiling {

inline constexpr int64_t LoopColumns = 8, OperationColumns = 16;

/// The machine that the code is for.
struct Machine {
  int64_t cache1, cache2, cache3; ///< in bytes
  int64_t vectorBits;
};

Signature signature();

/// Fills the inputs of a bound runner.
void describe(mlir::linalg::LinalgOp Op, const Machine &For, Runner &Asked);

/// InvalidArgument says which size it was.
Expected<Choice> chosen(mlir::linalg::LinalgOp Op, Runner &Asked);

} // namespace mlbridge::tiling

#endif
