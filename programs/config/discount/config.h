/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
   Build settings that the configure step of Discount would write. */
#ifndef DISCOUNT_CONFIG_H
#define DISCOUNT_CONFIG_H
#define OS_LINUX 1
#define TABSTOP 4
#define USE_DISCOUNT_DL 1
#define HAVE_GETPWUID 1
#define HAVE_PWD_H 1
#define HAVE_BASENAME 1
#define HAVE_LIBGEN_H 1
#define HAVE_RANDOM 1
#define HAVE_SRANDOM 1
#define HAVE_BZERO 1
#define HAVE_STRCASECMP 1
#define HAVE_STRNCASECMP 1
#define HAVE_FCHDIR 1
#define HAVE_STAT 1
#define HAVE_S_ISREG 1
#define HAVE_MALLOC_H 1
#define COINTOSS() (random() & 1)
#define INITRNG(x) srandom((unsigned int)(x))
#define DWORD unsigned int
#define WORD unsigned short
#define BYTE unsigned char
#define USE_EXTRA_DL 1
#define DESTRUCTOR
#define while_ while
#endif
