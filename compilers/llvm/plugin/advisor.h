// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The models of LLVM's own advisors.
#ifndef MLBRIDGE_LLVM_PLUGIN_ADVISOR_H
#define MLBRIDGE_LLVM_PLUGIN_ADVISOR_H

#include "settings.h"

#include <mlbridge/llvm_model_runner.h>

#include "llvm/IR/Module.h"

#include <memory>

namespace mlbridge::plugin {

/// The model, opened once for the whole process: modules compiled in several threads share it.
/// Thread-safe. Blocks until the deadline at most. A failure is in its status().
Model openForProcess(const Settings &Options);

/// A runner of the model for this module, to be used by one thread. Never null; a failure is in its
/// status().
std::unique_ptr<LLVMModelRunner> newRunner(const Settings &Options, const Model &Policy,
                                           const llvm::Module &M,
                                           const std::vector<llvm::TensorSpec> &Features,
                                           const llvm::TensorSpec &Advice);

} // namespace mlbridge::plugin

#endif
