// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// All kernels for AVX2, of which the library has some and the ahead-of-time compiler uses any.
#include "engine/native/kernels/table.h"
#include "engine/native/kernels/vector_avx2.h"

namespace mlbridge::native {
MLBRIDGE_NATIVE_TABLE(setAvx2AllKernels, Avx2)
} // namespace mlbridge::native
