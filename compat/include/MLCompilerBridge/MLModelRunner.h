// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The include path of the paper's Listing 4.
#ifndef MLBRIDGE_COMPAT_LISTING_MLMODELRUNNER_H
#define MLBRIDGE_COMPAT_LISTING_MLMODELRUNNER_H

#include "MLModelRunner/MLModelRunner.h"

namespace MLBridge {
using SerDes = BaseSerDes; // as Listing 4 spells the kinds: SerDes::Kind::Json
}

#endif
