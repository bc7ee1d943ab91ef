// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// MLBridge::MLConfig::mlconfig of the 2024 release: where a pass finds its models' configuration.
// With LLVM's headers it is the option --ml-config-path of the program; without them a string that
// starts as the environment variable ML_CONFIG_PATH.
#ifndef MLBRIDGE_COMPAT_MLCONFIG_H
#define MLBRIDGE_COMPAT_MLCONFIG_H

#include "MLModelRunner/Utils/LLVM.h"

#include <cstdlib>
#include <string>

#if MLBRIDGE_COMPAT_LLVM
#include "llvm/Support/CommandLine.h"
#endif

namespace MLBridge::MLConfig {

#if MLBRIDGE_COMPAT_LLVM
inline llvm::cl::opt<std::string> mlconfig("ml-config-path", llvm::cl::Hidden,
                                           llvm::cl::desc("Path to ML config files"));
#else
inline std::string mlconfig = [] {
  const char *path = ::secure_getenv("ML_CONFIG_PATH");
  return std::string(path ? path : "");
}();
#endif

} // namespace MLBridge::MLConfig

#endif
