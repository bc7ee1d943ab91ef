/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
   Version numbers that the configure step of YAJL would write. */
#ifndef YAJL_VERSION_H_
#define YAJL_VERSION_H_
#include <yajl/yajl_common.h>
#define YAJL_MAJOR 2
#define YAJL_MINOR 1
#define YAJL_MICRO 0
#define YAJL_VERSION ((YAJL_MAJOR * 10000) + (YAJL_MINOR * 100) + YAJL_MICRO)
YAJL_API int yajl_version(void);
#endif
