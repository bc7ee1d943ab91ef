/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
   Visibility macros that the configure step of cmark would write. */
#define CMARK_EXPORT
