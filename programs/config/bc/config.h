/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
   Build settings that the configure step of bc would write. */
#include "../common/posix_have.h"
#define BC_COPYRIGHT "bc"
#define DC_COPYRIGHT "dc"
#define DC_VERSION "1.4.1"
#define PACKAGE "bc"
#define VERSION "1.07.1"
