// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef MLBRIDGE_LOOP_DISTRIBUTION_AGENTS_H
#define MLBRIDGE_LOOP_DISTRIBUTION_AGENTS_H

#include <mlbridge/status.h>

namespace mlbridge::distribution {

/// Makes the agents that need no model known: function:heuristic, function:random?seed=N,
/// function:always and function:never. Each decides for both. Errors: InvalidArgument if the names
/// are taken.
Status registerAgents();

} // namespace mlbridge::distribution

#endif
