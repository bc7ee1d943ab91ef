// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef MLBRIDGE_ADVICE_FLAGS_H
#define MLBRIDGE_ADVICE_FLAGS_H

#include "advice.h"

#include "llvm/Support/CommandLine.h"

namespace mlbridge::advice {

/// What the command line says; if it doesn't, what the environment does, MLBRIDGE_INLINER_MODEL for
/// -inliner-model: linkers read their options before they load plugins.
std::string value(const llvm::cl::opt<std::string> &Option);

/// The options of one question, which begin with `Prefix`: -inliner-model. Made once, when the
/// plugin is loaded.
class Flags {
public:
  Flags(llvm::StringRef Prefix, llvm::StringRef What, llvm::StringRef Levels);

  /// Whether there is a model.
  bool given() const;
  Settings settings() const;

private:
  std::string named(llvm::StringRef Option) const;

  const llvm::StringRef Prefix;
  const std::string Names[6];
  llvm::cl::opt<std::string> Model, Deadline, OnFailure, Levels, Missing, Log;
};

} // namespace mlbridge::advice

#endif
