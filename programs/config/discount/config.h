/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
   Build settings that the configure step of Discount would write. */
#define TABSTOP 4
#define HAVE_BASENAME 1
#define HAVE_LIBGEN_H 1
#define COINTOSS() (random() & 1)
#define INITRNG(x) srandom((unsigned int)(x))
#define DWORD unsigned int
#define DESTRUCTOR
