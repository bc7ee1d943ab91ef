/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
   The system's error messages under names that the C library no longer has. */
const char *const sys_errlist[] = {"no error"};
int sys_nerr = 1;
