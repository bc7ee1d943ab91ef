// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "engine/native/kernels/table.h"
#include "engine/native/kernels/vector_portable.h"

namespace mlbridge::native {
MLBRIDGE_NATIVE_TABLE(setPortableKernels, Portable)
} // namespace mlbridge::native
