// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The kernels that don't gain from vectors and are seldom called: compiled for size.
#define MLBRIDGE_NATIVE_RARE
#include "engine/native/kernels/attention.h"
#include "engine/native/kernels/classical.h"
#include "engine/native/kernels/indexed.h"
#include "engine/native/kernels/quantized.h"
#include "engine/native/kernels/spatial.h"

namespace mlbridge::native {

#define MLBRIDGE_DEFINE(name)                                                                      \
  void name##Kernel(Operands operands, Parameters parameters);                                     \
  void name##Kernel(Operands operands, Parameters parameters) {                                    \
    kernels::name(operands, parameters);                                                           \
  }
MLBRIDGE_NATIVE_RARE_KERNELS(MLBRIDGE_DEFINE)
#undef MLBRIDGE_DEFINE

} // namespace mlbridge::native
