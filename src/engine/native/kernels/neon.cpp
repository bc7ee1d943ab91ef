// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "engine/native/kernels/table.h"
#include "engine/native/kernels/vector_neon.h"

namespace mlbridge::native {
MLBRIDGE_NATIVE_TABLE(setNeonKernels, Neon)
} // namespace mlbridge::native
