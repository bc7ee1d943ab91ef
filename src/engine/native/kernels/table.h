// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The table of all kernels for one instruction set.
#ifndef MLBRIDGE_ENGINE_NATIVE_KERNELS_TABLE_H
#define MLBRIDGE_ENGINE_NATIVE_KERNELS_TABLE_H

#include "along_axis.h"
#include "blocks.h"
#include "convolution.h"
#include "elementwise.h"
#include "gemm.h"
#include "quantized.h"
#include "recurrent.h"

namespace mlbridge::native {

/// Defined once, in busy.cpp and rare.cpp.
#define MLBRIDGE_DECLARE(name) void name##Kernel(void *const *, const int64_t *);
MLBRIDGE_NATIVE_PLAIN_KERNELS(MLBRIDGE_DECLARE)
#undef MLBRIDGE_DECLARE

#define MLBRIDGE_FLOAT_ENTRY(name)                                                                 \
  *table++ = &kernels::name<IsaOfTable::F32>;                                                      \
  *table++ = &kernels::name<IsaOfTable::F64>;
#define MLBRIDGE_VECTOR_ENTRY(name) *table++ = &kernels::name<IsaOfTable>;
#define MLBRIDGE_PLAIN_ENTRY(name) *table++ = &name##Kernel;
#define MLBRIDGE_NATIVE_TABLE(Name, Isa)                                                           \
  using IsaOfTable = kernels::Isa;                                                                 \
  SetKernels Name;                                                                                 \
  void Name(Kernel *table) {                                                                       \
    MLBRIDGE_NATIVE_FLOAT_KERNELS(MLBRIDGE_FLOAT_ENTRY)                                            \
    MLBRIDGE_NATIVE_VECTOR_KERNELS(MLBRIDGE_VECTOR_ENTRY)                                          \
    MLBRIDGE_NATIVE_PLAIN_KERNELS(MLBRIDGE_PLAIN_ENTRY)                                            \
  }

} // namespace mlbridge::native

#endif
