/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
   Build settings that the configure step of Speex would write. */
#include "../common/posix_have.h"
#define EXPORT __attribute__((visibility("default")))
#define FLOATING_POINT 1
#define VAR_ARRAYS 1
#define SPEEX_VERSION "1.2.1"
#define SPEEX_MAJOR_VERSION 1
#define SPEEX_MINOR_VERSION 2
#define SPEEX_MICRO_VERSION 1
#define SPEEX_EXTRA_VERSION ""
