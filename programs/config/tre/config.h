/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
   Build settings that the configure step of TRE would write. */
#include "../common/posix_have.h"
#include "tre-config.h"
#define TRE_REGEX_T_FIELD value
#define TRE_USE_ALLOCA 1
#define NDEBUG 1
#define PACKAGE_BUGREPORT ""
