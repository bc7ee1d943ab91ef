// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The 2024 release's copy of LLVM's JSON library was LLVM's own, which this is where its headers
// are in the include path, and empty otherwise.
#ifndef MLBRIDGE_COMPAT_UTILS_JSON_H
#define MLBRIDGE_COMPAT_UTILS_JSON_H

#include "MLModelRunner/Utils/LLVM.h"

#if MLBRIDGE_COMPAT_LLVM
#include "llvm/Support/JSON.h"
#endif

#endif
