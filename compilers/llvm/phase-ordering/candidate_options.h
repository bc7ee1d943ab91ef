// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Options of LLVM that hold for one candidate, or for the code of one module.
#ifndef MLBRIDGE_LLVM_PHASE_ORDERING_CANDIDATE_OPTIONS_H
#define MLBRIDGE_LLVM_PHASE_ORDERING_CANDIDATE_OPTIONS_H

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"

#include <string>
#include <vector>

namespace llvm::cl {
class Option;
}

namespace mlbridge::phase_ordering {

/// The option of LLVM that a setting such as "disable-lsr" or "name=value" is for, or null.
llvm::cl::Option *findOption(llvm::StringRef Setting);

/// Options that are set for a module, and reset when the next one begins.
class OptionsInForce {
public:
  /// Options that the user has set stay as they are. False if LLVM refuses a value; it has then
  /// printed that.
  bool set(llvm::ArrayRef<std::string> Settings);
  void reset();

private:
  std::vector<llvm::cl::Option *> Changed;
};

} // namespace mlbridge::phase_ordering

#endif
