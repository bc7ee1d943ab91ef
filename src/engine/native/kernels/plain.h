// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// All kernels of MLBRIDGE_NATIVE_PLAIN_KERNELS.
#ifndef MLBRIDGE_ENGINE_NATIVE_KERNELS_PLAIN_H
#define MLBRIDGE_ENGINE_NATIVE_KERNELS_PLAIN_H

#include "generic.h"
#include "indexed.h"
#include "kernel.h"
#include "movement.h"

#endif
