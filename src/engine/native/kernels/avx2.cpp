// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "engine/native/kernels/table.h"
#include "engine/native/kernels/vector_avx2.h"

namespace mlbridge::native {
MLBRIDGE_NATIVE_TABLE(Avx2Kernels, Avx2)
} // namespace mlbridge::native
