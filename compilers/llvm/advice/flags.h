// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef MLBRIDGE_ADVICE_FLAGS_H
#define MLBRIDGE_ADVICE_FLAGS_H

#include "advice.h"

#include "llvm/Support/CommandLine.h"

namespace mlbridge::advice {

/// The options of whatever asks models, which begin with `Prefix`: -inliner-model. What the command
/// line doesn't say, the environment may, with MLBRIDGE_INLINER_MODEL: linkers read their options
/// before they load plugins. Made once, when the plugin is loaded.
class Flags {
public:
  Flags(llvm::StringRef Prefix, llvm::StringRef What, llvm::StringRef Levels);

  /// Whether there is a model.
  bool given() const;
  Settings settings() const;

protected:
  /// What the option or the environment says.
  static std::string value(const llvm::cl::opt<std::string> &Option);
  static std::string named(llvm::StringRef Prefix, llvm::StringRef Option);

private:
  const llvm::StringRef Prefix;
  const std::string Names[5]; // which the options refer to
  llvm::cl::opt<std::string> Model, Deadline, OnFailure, Levels, Fingerprint;
};

/// Those of a question of LLVM's own advisors.
class QuestionFlags : public Flags {
public:
  QuestionFlags(llvm::StringRef Prefix, llvm::StringRef What, llvm::StringRef Levels);

  Settings questionSettings() const;

private:
  const std::string Names[2];
  llvm::cl::opt<std::string> Missing, Log;
};

} // namespace mlbridge::advice

#endif
