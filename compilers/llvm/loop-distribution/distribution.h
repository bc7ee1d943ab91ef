// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef MLBRIDGE_LOOP_DISTRIBUTION_DISTRIBUTION_H
#define MLBRIDGE_LOOP_DISTRIBUTION_DISTRIBUTION_H

#include "graph.h"

namespace mlbridge::distribution {

/// Replaces the loop by several, in this order, each with the nodes of one set; before them, the
/// comparisons that they need, and the loop as it was for when these fail. Requires that
/// Of.isLegal(Loops), and at least two. Keeps dominators, loops and LCSSA form; forgets the rest.
/// `Of` must not be used afterwards.
void distribute(const LoopGraph &Of, llvm::ArrayRef<llvm::BitVector> Loops, const Analyses &Its);

} // namespace mlbridge::distribution

#endif
