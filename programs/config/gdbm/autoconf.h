/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
   Build settings that the configure step of GDBM would write. */
#include "../common/posix_have.h"
#define HAVE_STRUCT_STAT_ST_BLKSIZE 1
#define HAVE_STRUCT_STAT_ST_MTIM 1
#define HAVE_SYS_FILE_H 1
#define GDBM_THREAD_LOCAL __thread
#define SIZEOF_OFF_T 8
#define PACKAGE "gdbm"
#define PACKAGE_NAME "gdbm"
#define PACKAGE_URL ""
#define PACKAGE_VERSION "1.23"
#define PACKAGE_BUGREPORT ""
#define VERSION "1.23"
