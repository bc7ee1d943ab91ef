/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
   Settings that the configure step of Jansson would write for itself. */
#include "../common/posix_have.h"
#define HAVE_ATOMIC_BUILTINS 1
#define HAVE_CLOSE 1
#define HAVE_GETPID 1
#define HAVE_OPEN 1
#define HAVE_READ 1
#define HAVE_SCHED_H 1
#define HAVE_SCHED_YIELD 1
#define INITIAL_HASHTABLE_ORDER 3
#define USE_URANDOM 1
