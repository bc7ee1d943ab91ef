// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The include path of the paper's Listing 4.
#include "MLModelRunner/gRPCModelRunner.h"
