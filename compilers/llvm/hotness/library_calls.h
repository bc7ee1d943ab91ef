// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef MLBRIDGE_LLVM_HOTNESS_LIBRARY_CALLS_H
#define MLBRIDGE_LLVM_HOTNESS_LIBRARY_CALLS_H

#include "llvm/ADT/StringRef.h"

namespace mlbridge::hotness {

/// What a function of the C or C++ library is for.
enum class Purpose {
  Other,
  Print,
  Format,
  End,
  Allocate,
  Memory,
  Text,
  File,
  Setting,
  Math,
  Throw
};

/// By its linkage name.
Purpose purposeOf(llvm::StringRef Name);

} // namespace mlbridge::hotness

#endif
