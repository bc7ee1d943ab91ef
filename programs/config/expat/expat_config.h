/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
   Build settings that the configure step of Expat would write. */
#include "../common/posix_have.h"
#define BYTEORDER 1234
#define HAVE_GETRANDOM 1
#define XML_CONTEXT_BYTES 1024
#define XML_DEV_URANDOM 1
#define XML_DTD 1
#define XML_NS 1
