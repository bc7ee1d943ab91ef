// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef MLBRIDGE_REGALLOC_ADVICE_FLAGS_H
#define MLBRIDGE_REGALLOC_ADVICE_FLAGS_H

#include "advice/advice.h"

namespace mlbridge::regalloc {

/// The options of one question, which begin with `Prefix`; each question has a model of its own.
class Flags {
public:
  Flags(llvm::StringRef Prefix, llvm::StringRef What);

  /// Whether there is a model.
  bool given() const;
  advice::Settings settings() const;

private:
  std::string named(llvm::StringRef Option) const;

  const llvm::StringRef Prefix;
  const std::string Names[6];
  llvm::cl::opt<std::string> Model, Deadline, OnFailure, Levels, Missing, Log;
};

} // namespace mlbridge::regalloc

#endif
