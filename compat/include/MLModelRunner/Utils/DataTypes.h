// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The types that a JSON reply had in the 2024 release. Any arithmetic type can be asked for now.
#ifndef MLBRIDGE_COMPAT_DATATYPES_H
#define MLBRIDGE_COMPAT_DATATYPES_H

namespace MLBridge {

#ifdef MLBRIDGE_EXTENDED_TYPES
using RealType = double;
using IntegerType = long;
#else
using RealType = float;
using IntegerType = int;
#endif

} // namespace MLBridge

#endif
