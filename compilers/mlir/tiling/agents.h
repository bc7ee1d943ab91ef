// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef MLBRIDGE_MLIR_TILING_AGENTS_H
#define MLBRIDGE_MLIR_TILING_AGENTS_H

#include <mlbridge/status.h>

namespace mlbridge::tiling {

/// Makes the agents that need no model known: function:random?seed=N, and
/// function:constant?size=N&vectorize=0|1. Errors: InvalidArgument if the names are taken.
Status registerAgents();

} // namespace mlbridge::tiling

#endif
