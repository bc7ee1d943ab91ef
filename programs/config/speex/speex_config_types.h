/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
   Sizes of the types that the configure step of Speex would write. */
#include <stdint.h>
typedef int16_t spx_int16_t;
typedef uint16_t spx_uint16_t;
typedef int32_t spx_int32_t;
typedef uint32_t spx_uint32_t;
