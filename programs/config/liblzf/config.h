/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
   Build settings that the configure step of LibLZF would write. */
#include "../common/posix_have.h"
