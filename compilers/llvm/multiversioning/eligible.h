// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef MLBRIDGE_LLVM_MULTIVERSIONING_ELIGIBLE_H
#define MLBRIDGE_LLVM_MULTIVERSIONING_ELIGIBLE_H

#include "llvm/IR/Function.h"

namespace mlbridge::multiversioning {

/// Why a function that is defined here can't be there twice, or not with wider registers; empty if
/// it can.
llvm::StringRef whyNot(const llvm::Function &F);

} // namespace mlbridge::multiversioning

#endif
