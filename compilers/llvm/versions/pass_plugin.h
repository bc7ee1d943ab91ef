// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// LLVM 22 moved this header.
#ifndef MLBRIDGE_VERSIONS_PASS_PLUGIN_H
#define MLBRIDGE_VERSIONS_PASS_PLUGIN_H

#if __has_include("llvm/Plugins/PassPlugin.h")
#include "llvm/Plugins/PassPlugin.h"
#else
#include "llvm/Passes/PassPlugin.h"
#endif

#endif
