// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// LLVM 22 tells a callback at the start of simplification what part of a link the pipeline is.
#ifndef MLBRIDGE_VERSIONS_LTO_PHASE_H
#define MLBRIDGE_VERSIONS_LTO_PHASE_H

#include "llvm/IR/Module.h"
#include "llvm/Pass.h"

namespace mlbridge::versions {

/// `Started` is true if the pipeline has told its start.
inline llvm::ThinOrFullLTOPhase phaseOf(bool /*Started*/, llvm::ThinOrFullLTOPhase Told) {
  return Told;
}
/// In LLVM 19 only the back ends of ThinLTO don't tell their start.
inline llvm::ThinOrFullLTOPhase phaseOf(bool Started) {
  return Started ? llvm::ThinOrFullLTOPhase::None : llvm::ThinOrFullLTOPhase::ThinLTOPostLink;
}

/// True if clang 19 marked the module as one that a linker will optimize.
inline bool isMarkedForLTO([[maybe_unused]] const llvm::Module &M) {
#if LLVM_VERSION_MAJOR >= 22
  return false; // the phase is known
#else
  return M.getModuleFlag("EnableSplitLTOUnit") != nullptr;
#endif
}

} // namespace mlbridge::versions

#endif
