/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
   Build settings that the configure step of Berkeley Yacc would write. */
#include "../common/posix_have.h"
#define HAVE_STDNORETURN_H 1
#define GCC_NORETURN __attribute__((noreturn))
#define GCC_UNUSED __attribute__((unused))
#define MAXTABLE INT_MAX
#include <limits.h>
