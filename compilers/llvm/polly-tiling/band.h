// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The description of a function's loops that a model sees before Polly runs.
#ifndef MLBRIDGE_POLLY_TILING_BAND_H
#define MLBRIDGE_POLLY_TILING_BAND_H

#include "c/choose_tiles.h"

#include "llvm/Analysis/LoopInfo.h"
#include "llvm/Analysis/ScalarEvolution.h"

#include <vector>

namespace mlbridge::polly_tiling {

/// The loops around the function's deepest one, outermost first; of several such nests that with
/// the most accesses, the first of equals. Empty without a loop; the innermost 8 of deeper ones.
/// Polly decides itself what it can tile.
std::vector<tiles_loop> bandOf(const llvm::LoopInfo &Loops, llvm::ScalarEvolution &Evolution);

} // namespace mlbridge::polly_tiling

#endif
