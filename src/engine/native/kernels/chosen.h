// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef MLBRIDGE_ENGINE_NATIVE_KERNELS_CHOSEN_H
#define MLBRIDGE_ENGINE_NATIVE_KERNELS_CHOSEN_H

#include "kernel.h"

namespace mlbridge::native {

/// A kernel in place of that of a lesser instruction set. A list ends with KernelId::Count.
struct ChosenKernel {
  KernelId id;
  Kernel kernel;
};

} // namespace mlbridge::native

#endif
