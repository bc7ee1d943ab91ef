// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef MLBRIDGE_LLVM_PHASE_ORDERING_CODE_SPEED_H
#define MLBRIDGE_LLVM_PHASE_ORDERING_CODE_SPEED_H

#include "llvm/Object/ObjectFile.h"
#include "llvm/Support/Error.h"
#include "llvm/Target/TargetMachine.h"

namespace mlbridge::phase_ordering {

/// Has the objects that this code generator makes from now on say where their blocks are and how
/// often each runs, as LLVM estimates it. Their code stays the same. For a process that emits
/// nothing else: options of LLVM are set.
void describeBlocks(llvm::TargetMachine &TM);

/// Cycles that all functions of such an object take if each is called once: those of its blocks by
/// LLVM's scheduling model of the target, weighted by their frequency. What a call takes is ten
/// cycles; caches and mispredicted branches are not modelled. Errors: the target has no such model.
llvm::Expected<double> cycles(const llvm::object::ObjectFile &Made, const llvm::TargetMachine &TM);

} // namespace mlbridge::phase_ordering

#endif
