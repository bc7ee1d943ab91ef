// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// MLBRIDGE_DEBUG(X) of the 2024 release: X in a build with DEBUG_MODE, nothing otherwise.
#ifndef MLBRIDGE_COMPAT_DEBUG_H
#define MLBRIDGE_COMPAT_DEBUG_H

#ifdef DEBUG_MODE
#include <iostream>
#define MLBRIDGE_DEBUG(X)                                                                          \
  do {                                                                                             \
    X;                                                                                             \
  } while (false)
#else
#define MLBRIDGE_DEBUG(X)
#endif

#endif
