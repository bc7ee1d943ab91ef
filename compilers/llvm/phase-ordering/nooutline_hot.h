// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef MLBRIDGE_LLVM_PHASE_ORDERING_NOOUTLINE_HOT_H
#define MLBRIDGE_LLVM_PHASE_ORDERING_NOOUTLINE_HOT_H

#include "llvm/IR/PassManager.h"

namespace llvm {
class PassBuilder;
}

namespace mlbridge::phase_ordering {

/// Has LLVM's machine outliner leave alone those functions of a module that probably run most for
/// their size: they get the attribute "nooutline", in that order, until one has more instructions
/// than are left of some percent of the module's.
///
/// How often a function is entered is what its profile says; without one, LLVM's static frequencies
/// spread along the calls from functions that can be entered from outside or by a pointer. So it is
/// for whole programs.
class NoOutlineHot : public llvm::PassInfoMixin<NoOutlineHot> {
public:
  explicit NoOutlineHot(unsigned Percent) : Percent(Percent) {}
  llvm::PreservedAnalyses run(llvm::Module &M, llvm::ModuleAnalysisManager &MAM);

  /// Has the builder know it: "nooutline-hot<30>" is for 30 percent (0 to 100).
  static void registerIn(llvm::PassBuilder &Builder);

private:
  unsigned Percent;
};

} // namespace mlbridge::phase_ordering

#endif
