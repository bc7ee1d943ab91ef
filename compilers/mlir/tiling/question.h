// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The question about an operation, and the model's answer; README.md has the tables.
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
void describe(mlir::linalg::LinalgOp Op, const Machine &Target, Runner &Policy);

/// InvalidArgument says which size it was.
Expected<Choice> chosen(mlir::linalg::LinalgOp Op, Runner &Policy);

/// Makes the agents that need no model known: function:random?seed=N, and
/// function:constant?size=N&vectorize=0|1. Errors: InvalidArgument if the names are taken.
Status registerAgents();

} // namespace mlbridge::tiling

#endif
