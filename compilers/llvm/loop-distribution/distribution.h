// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef MLBRIDGE_LOOP_DISTRIBUTION_DISTRIBUTION_H
#define MLBRIDGE_LOOP_DISTRIBUTION_DISTRIBUTION_H

#include "graph.h"

namespace mlbridge::loop_distribution {

/// Replaces the loop by several, in this order, each with the nodes of one set; before them, the
/// comparisons that they need, and the loop as it was for when these fail. Requires that
/// Graph.isLegal(Loops), and at least two. Keeps dominators, loops and LCSSA form; forgets the
/// rest. `Graph` must not be used afterwards.
void distribute(const LoopGraph &Graph, llvm::ArrayRef<llvm::BitVector> Loops,
                const Analyses &Analysis);

} // namespace mlbridge::loop_distribution

#endif
