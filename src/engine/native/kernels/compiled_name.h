// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Symbols of a compiled network: they begin with MLBRIDGE_AOT_NAME.
#ifndef MLBRIDGE_ENGINE_NATIVE_KERNELS_COMPILED_NAME_H
#define MLBRIDGE_ENGINE_NATIVE_KERNELS_COMPILED_NAME_H

#include <cstdint>

#define MLBRIDGE_AOT_JOIN_(a, b, c) a##b##c
#define MLBRIDGE_AOT_JOIN(a, b, c) MLBRIDGE_AOT_JOIN_(a, b, c)
#define MLBRIDGE_AOT_SYMBOL(rest, isa) MLBRIDGE_AOT_JOIN(MLBRIDGE_AOT_NAME, rest, isa)
#define MLBRIDGE_AOT_HIDDEN extern "C" __attribute__((visibility("hidden")))

using mlbridge_aot_evaluate = int32_t(const void *, void *, void *const *, void *const *, uint64_t);

#endif
