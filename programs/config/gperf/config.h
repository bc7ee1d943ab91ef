/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
   Settings that the configure step of gperf would write for itself. */
#define HAVE_DYNAMIC_ARRAY 1
