/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
   Build settings that the configure step of Jim Tcl would write. */
#include "../common/posix_have.h"
#define HAVE_LONG_LONG 1
#define HAVE_SHUTDOWN 1
#define HAVE_SOCKETPAIR 1
#define HAVE_SYS_UN_H 1
#define HAVE_NETDB_H 1
#define HAVE_NETINET_IN_H 1
#define HAVE_ARPA_INET_H 1
#define HAVE_USLEEP 1
#define HAVE_LINK 1
#define HAVE_LSTAT 1
#define HAVE_READLINK 1
#define HAVE_REALPATH 1
#define HAVE_SELECT 1
#define HAVE_STRPTIME 1
#define HAVE_SYMLINK 1
#define HAVE_UMASK 1
#define HAVE_UTIMES 1
#define HAVE_PIPE 1
#define HAVE_ISASCII 1
#define JIM_REGEXP 1
#define JIM_REFERENCES 1
#define JIM_MATH_FUNCTIONS 1
#define HAVE_GETADDRINFO 1
#define HAVE_INET_NTOP 1
#define USE_LINENOISE 1
#define JIM_VERSION 81
#define TCL_LIBRARY "/usr/lib/jim"
#define TCL_PLATFORM_OS "linux"
#define TCL_PLATFORM_PLATFORM "unix"
#define _GNU_SOURCE 1
