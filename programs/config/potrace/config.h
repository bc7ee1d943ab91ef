/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
   Build settings that the configure step of Potrace would write. */
#include "../common/posix_have.h"
#define DEFAULT_PAPERFORMAT "a4"
#define DEFAULT_PAPERWIDTH 595
#define DEFAULT_PAPERHEIGHT 842
#define POTRACE "potrace"
#define MKBITMAP "mkbitmap"
#define VERSION "1.16"
