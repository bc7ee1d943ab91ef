/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
   The public header where the sources look for it. */
#include "../yajl_version.h"
