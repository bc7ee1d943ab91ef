/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
   What CMake would write for libebml: nothing is exported. */
#define EBML_DLL_API
