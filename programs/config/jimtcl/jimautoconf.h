/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
   The second name under which Jim Tcl asks for its build settings. */
#include "jim-config.h"
