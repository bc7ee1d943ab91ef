// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef MLBRIDGE_CORE_RANK_H
#define MLBRIDGE_CORE_RANK_H

#include <cstddef>

namespace mlbridge {

/// A signature's tensors have no more dimensions, on the wire or elsewhere.
constexpr size_t MaxRank = 32;

} // namespace mlbridge

#endif
