/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#ifndef MLBRIDGE_C_CHOICE_H
#define MLBRIDGE_C_CHOICE_H
#pragma message("mlbridge/c/choice.h is now mlbridge/c/sampler.h")
#include <mlbridge/c/sampler.h>
#endif
