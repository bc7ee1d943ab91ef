/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
   Build settings that the configure step of cksfv would write. */
#include "../common/posix_have.h"
#define VERSION "1.3.15"
#define PACKAGE_VERSION "1.3.15"
