// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The kernels that don't gain from vectors of an instruction set: once for all tables.
#define MLBRIDGE_NATIVE_BUSY
#include "engine/native/kernels/attention.h"
#include "engine/native/kernels/classical.h"
#include "engine/native/kernels/indexed.h"
#include "engine/native/kernels/spatial.h"

namespace mlbridge::native {

#define MLBRIDGE_DEFINE(name)                                                                      \
  void name##Kernel(Operands operands, Parameters parameters);                                     \
  void name##Kernel(Operands operands, Parameters parameters) {                                    \
    kernels::name(operands, parameters);                                                           \
  }
MLBRIDGE_NATIVE_BUSY_KERNELS(MLBRIDGE_DEFINE)
#undef MLBRIDGE_DEFINE

} // namespace mlbridge::native
