// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef MLBRIDGE_ENGINE_NATIVE_COMPILE_PRINT_H
#define MLBRIDGE_ENGINE_NATIVE_COMPILE_PRINT_H

#include "engine/native/compile/generate.h"
#include "engine/native/plan.h"

#include <mlbridge/model.h>

namespace mlbridge::aot {

/// `file`: the network's file, for comments. The plan has no guards.
Generated print(const native::Plan &plan, const Metadata &metadata, const std::string &file,
                const GenerateOptions &options);

} // namespace mlbridge::aot

#endif
