// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef MLBRIDGE_LLVM_PLUGIN_LEVELS_H
#define MLBRIDGE_LLVM_PLUGIN_LEVELS_H

#include "llvm/ADT/StringRef.h"
#include "llvm/Passes/OptimizationLevel.h"

namespace mlbridge::plugin {

/// The name of a level in a compiler's option: "O2", "Oz".
inline llvm::StringRef nameOf(llvm::OptimizationLevel Level) {
  constexpr llvm::StringLiteral Speed[] = {"O0", "O1", "O2", "O3"}, Size[] = {"Os", "Oz"};
  return Level.getSizeLevel() ? Size[Level.getSizeLevel() - 1] : Speed[Level.getSpeedupLevel()];
}

} // namespace mlbridge::plugin

#endif
