/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
   Visibility macros that the configure step of cmark would write. */
#ifndef CMARK_EXPORT_H
#define CMARK_EXPORT_H
#define CMARK_EXPORT
#define CMARK_NO_EXPORT
#endif
