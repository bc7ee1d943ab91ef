// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What is left as it is, because somebody knows better.
#ifndef MLBRIDGE_LLVM_HOTNESS_ELIGIBLE_H
#define MLBRIDGE_LLVM_HOTNESS_ELIGIBLE_H

#include "llvm/ADT/DenseSet.h"
#include "llvm/IR/Module.h"

namespace mlbridge::hotness {

/// Why a whole module is left alone; empty if it isn't. `HasProfile`: its pipeline uses a profile
/// or counts for one.
llvm::StringRef whyLeftAlone(const llvm::Module &M, bool HasProfile);

/// Which functions of a module may be compiled for size.
class Eligible {
public:
  explicit Eligible(const llvm::Module &M);

  /// Why a function is left alone; empty if it isn't.
  llvm::StringRef whyNot(const llvm::Function &F) const;

private:
  llvm::DenseSet<const llvm::Function *> Resolved; ///< chosen from when the program is loaded
};

} // namespace mlbridge::hotness

#endif
