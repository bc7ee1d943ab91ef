/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
   Build settings that the configure step of FLAC would write. */
#include "../common/posix_have.h"
#define ENABLE_64_BIT_WORDS 1
#define FLAC__ALIGN_MALLOC_DATA 1
#define FLAC__HAS_OGG 0
#define FLAC__NO_ASM 1
#define HAVE_LANGINFO_CODESET 1
#define NDEBUG 1
#define PACKAGE_VERSION "1.4.2"
#define _GNU_SOURCE 1
