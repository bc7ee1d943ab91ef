// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Once a plugin has an inline advisor, LLVM 19 looks for it in every analysis manager of the
// process; LLVM 22 only where it was registered.
#ifndef MLBRIDGE_VERSIONS_PLUGIN_INLINE_ADVISOR_H
#define MLBRIDGE_VERSIONS_PLUGIN_INLINE_ADVISOR_H

#include "llvm/Analysis/InlineAdvisor.h"
#include "llvm/Config/llvm-config.h"

namespace mlbridge::versions {

/// From now on this process has LLVM's own advisor in analysis managers that plugins don't know.
inline void forgetPluginInlineAdvisor() {
#if LLVM_VERSION_MAJOR < 22
  llvm::PluginInlineAdvisorAnalysis::HasBeenRegistered = false;
#endif
}

} // namespace mlbridge::versions

#endif
