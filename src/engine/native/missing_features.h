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
  void add(const std::string &who, const std::string &why);
  bool isEmpty() const { return reasons_.empty(); }
  /// Unsupported, with the list and a way out.
  Status status() const;

private:
  struct Reason {
    std::string why;
    std::vector<std::string> named; ///< the first of those concerned
    size_t others = 0;
  };
  std::vector<Reason> reasons_;
};

} // namespace mlbridge::native

#endif
