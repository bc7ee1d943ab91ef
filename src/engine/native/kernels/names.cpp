// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The names are apart from the tables, so that only programs that write them have them.
#include "engine/native/kernels/kernel.h"

namespace mlbridge::native {

const char *nameOf(KernelId id) {
  static const char *const Names[] = {
#define MLBRIDGE_NAME(name) #name "F32", #name "F64",
      MLBRIDGE_NATIVE_FLOAT_KERNELS(MLBRIDGE_NAME)
#undef MLBRIDGE_NAME
#define MLBRIDGE_NAME(name) #name,
          MLBRIDGE_NATIVE_VECTOR_KERNELS(MLBRIDGE_NAME) MLBRIDGE_NATIVE_PLAIN_KERNELS(MLBRIDGE_NAME)
#undef MLBRIDGE_NAME
  };
  return Names[static_cast<size_t>(id)];
}

} // namespace mlbridge::native
