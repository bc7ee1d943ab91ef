// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A copy of the module that groups run on, so that giving up leaves the original as it was.
#ifndef MLBRIDGE_LLVM_PHASE_ORDERING_WORKING_COPY_H
#define MLBRIDGE_LLVM_PHASE_ORDERING_WORKING_COPY_H

#include "llvm/IR/Module.h"
#include "llvm/IR/PassManager.h"

#include <memory>

namespace mlbridge::phase_ordering {

/// Copies on construction. The copy and what the host's analyses know of it die with this object;
/// the original, down to the order of its use lists, is not touched before commit().
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

private:
  void forgetAnalyses();

  llvm::Module &Original;
  llvm::ModuleAnalysisManager &MAM;
  std::unique_ptr<llvm::Module> Copy;
};

} // namespace mlbridge::phase_ordering

#endif
