// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The values of a reply in the type that a program asks for.
#ifndef MLBRIDGE_COMPAT_VALUES_H
#define MLBRIDGE_COMPAT_VALUES_H

#include "SerDes/baseSerDes.h"

#include <mlbridge/status.h>

namespace MLBridge {

/// Writes values.count elements of `type` to `into`. A value that isn't one of that type (a
/// fraction as an integer, 300 as a char, text as a number) is a Mismatch.
mlbridge::Status convert(const BaseSerDes::Values &values, mlbridge::ElementType type, void *into);

} // namespace MLBridge

#endif
