// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef MLBRIDGE_REGISTER_ALLOCATION_AGENTS_H
#define MLBRIDGE_REGISTER_ALLOCATION_AGENTS_H

#include <mlbridge/status.h>

namespace mlbridge::allocation {

/// Makes the agents that need no model known: function:heuristic and function:random?seed=N. They
/// decide for any of the four. Errors: InvalidArgument if the names are taken.
Status registerAgents();

} // namespace mlbridge::allocation

#endif
