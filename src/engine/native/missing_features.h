// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The list of everything that native lacks for a network, rather than the first of it.
#ifndef MLBRIDGE_ENGINE_NATIVE_MISSING_FEATURES_H
#define MLBRIDGE_ENGINE_NATIVE_MISSING_FEATURES_H

#include <mlbridge/status.h>

#include <string>
#include <vector>

namespace mlbridge::native {

/// Reasons, each with the nodes (or inputs and outputs) that it concerns.
class MissingFeatures {
public:
  /// `isHere`: that is missing in this engine alone, as far as is known; ONNX Runtime has it.
  void add(const std::string &who, const std::string &why, bool isHere = true);
  bool isEmpty() const { return reasons_.empty(); }
  /// Unsupported, with the list and, if ONNX Runtime has all of it, the way out.
  Status status() const;

private:
  struct Reason {
    std::string why;
    std::vector<std::string> named; ///< the first of those concerned
    size_t others = 0;
  };
  std::vector<Reason> reasons_;
  bool areHere_ = true;
};

} // namespace mlbridge::native

#endif
