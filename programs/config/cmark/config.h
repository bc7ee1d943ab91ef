/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
   Build settings that the configure step of cmark would write. */
#ifndef CMARK_CONFIG_H
#define CMARK_CONFIG_H
#define HAVE_STDBOOL_H
#include <stdbool.h>
#define HAVE___BUILTIN_EXPECT
#define HAVE___ATTRIBUTE__
#define CMARK_ATTRIBUTE(list) __attribute__(list)
#ifndef CMARK_INLINE
#define CMARK_INLINE inline
#endif
#endif
