// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef MLBRIDGE_LLVM_PHASE_ORDERING_WORKING_COPY_H
#define MLBRIDGE_LLVM_PHASE_ORDERING_WORKING_COPY_H

#include "llvm/IR/Module.h"
#include "llvm/IR/PassManager.h"

#include <memory>

namespace mlbridge::phase_ordering {

/// A copy of the module that groups run on, so that giving up leaves the original as it was: down
/// to the order of its use lists it is not touched before commit(). Copies on construction. The
/// copy and what the host's analyses know of it die with this object.
class WorkingCopy {
public:
  WorkingCopy(llvm::Module &Original, llvm::ModuleAnalysisManager &MAM);
  ~WorkingCopy();
  WorkingCopy(const WorkingCopy &) = delete;
  WorkingCopy &operator=(const WorkingCopy &) = delete;

  /// Requires that commit() was not called.
  llvm::Module &module() { return *Copy; }
  const llvm::Module &module() const { return *Copy; }
  /// Replaces the contents of the original by those of the copy. All analyses of the original are
  /// forgotten.
  void commit();
  /// Gives the copy away. Nothing else may be called then.
  std::unique_ptr<llvm::Module> take();

private:
  void forgetAnalyses();

  llvm::Module &Original;
  llvm::ModuleAnalysisManager &MAM;
  std::unique_ptr<llvm::Module> Copy;
};

/// Moves what another module of the same context and target has into this one, which loses its own.
/// No analysis of either may be used afterwards.
void replaceContents(llvm::Module &To, llvm::Module &From);

} // namespace mlbridge::phase_ordering

#endif
