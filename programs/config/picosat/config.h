/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
   Build settings that the configure step of PicoSAT would write. */
#define PICOSAT_CC "clang"
#define PICOSAT_CFLAGS "-Oz"
#define PICOSAT_VERSION "965"
