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
  /// Unsupported, with the list and what the user can do next: open the model with ONNX Runtime, if
  /// that has all of it, or export it in another way, which the reasons' words tell.
  Status status() const;

private:
  struct Reason {
    std::string why;
    std::string first; ///< of those concerned
    size_t others = 0;
  };
  std::vector<Reason> reasons_;
  bool areHere_ = true;
};

} // namespace mlbridge::native

#endif
