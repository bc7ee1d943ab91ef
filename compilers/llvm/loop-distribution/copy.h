// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A copy of a function, on which loops are canonicalized, analysed and divided before it is known
// whether the function itself will be changed at all.
#ifndef MLBRIDGE_LOOP_DISTRIBUTION_COPY_H
#define MLBRIDGE_LOOP_DISTRIBUTION_COPY_H

#include "llvm/ADT/DenseMap.h"
#include "llvm/IR/Function.h"
#include "llvm/IR/Instructions.h"
#include "llvm/IR/PassManager.h"

namespace mlbridge::loop_distribution {

/// Lies in the function's module, without a name, until it is destroyed. Nothing else of the
/// module, and no result of an analysis of it, has changed then.
class Copy {
public:
  Copy(llvm::Function &Original, llvm::FunctionAnalysisManager &Manager);
  ~Copy();
  Copy(const Copy &) = delete;
  Copy &operator=(const Copy &) = delete;

  llvm::Function &function() { return *Clone; }
  /// The original's instruction at the end of a block, of which this one is a copy; null if there
  /// is none.
  llvm::Instruction *original(const llvm::Instruction *End) const { return Ends.lookup(End); }

private:
  llvm::FunctionAnalysisManager &Manager;
  llvm::Function *Clone;
  llvm::DenseMap<const llvm::Instruction *, llvm::Instruction *> Ends;
};

} // namespace mlbridge::loop_distribution

#endif
