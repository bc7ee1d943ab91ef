/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
   Build settings that the configure step of Gifsicle would write. */
#include "../common/posix_have.h"
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#define GIF_ALLOCATOR_DEFINED 1
#define Gif_Free free
#define OUTPUT_GIF_TO_TERMINAL 0
#define PATHNAME_SEPARATOR '/'
#define RANDOM random
#define SIZEOF_UNSIGNED_INT 4
#define SIZEOF_UNSIGNED_LONG 8
#define SIZEOF_VOID_P 8
#define VERSION "1.93"
