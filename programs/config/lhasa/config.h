/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
   Settings that the configure step of lhasa would write for itself. */
#define PACKAGE_VERSION "0.3.1"
