/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
   Features of TRE that its configure step would write. */
#define HAVE_WCHAR_H 1
#define TRE_APPROX 1
#define TRE_MULTIBYTE 1
#define TRE_WCHAR 1
#define TRE_VERSION "0.8.0"
