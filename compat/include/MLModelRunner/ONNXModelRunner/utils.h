// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Observation of the 2024 release: llvm::SmallVector<float, 300> where LLVM's headers are in the
// include path, and otherwise a std::vector with the members of that class which passes used.
#ifndef MLBRIDGE_COMPAT_ONNX_UTILS_H
#define MLBRIDGE_COMPAT_ONNX_UTILS_H

#include "MLModelRunner/Utils/LLVM.h"

#include <vector>

#if MLBRIDGE_COMPAT_LLVM
#include "llvm/ADT/SmallVector.h"
#endif

namespace MLBridge {

#if MLBRIDGE_COMPAT_LLVM
typedef llvm::SmallVector<float, 300> Observation;
#else
class Observation : public std::vector<float> {
public:
  using std::vector<float>::vector;
  template <typename It> void append(It from, It to) { insert(end(), from, to); }
  template <typename Range> void append(const Range &range) { append(range.begin(), range.end()); }
};
#endif

} // namespace MLBridge

#endif
