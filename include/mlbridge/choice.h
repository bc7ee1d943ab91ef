// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef MLBRIDGE_CHOICE_H
#define MLBRIDGE_CHOICE_H
#pragma message("mlbridge/choice.h is now mlbridge/sampler.h")
#include <mlbridge/sampler.h>
#endif
