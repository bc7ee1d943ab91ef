// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef MLBRIDGE_INLINER_EXPLORE_H
#define MLBRIDGE_INLINER_EXPLORE_H

namespace mlbridge::inliner {

/// Makes function:flip?seed=N&probability=P&of=URI a model: another one, or else LLVM's heuristic,
/// with some decisions turned round, to learn what they cost. The same seed gives the same
/// decisions for a module. With margin=M all calls of a function are turned round together, and
/// only those that LLVM estimates to cost less than M either way.
void registerExploration();

} // namespace mlbridge::inliner

#endif
