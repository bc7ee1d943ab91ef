// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef MLBRIDGE_LLVM_PLUGIN_FLAGS_H
#define MLBRIDGE_LLVM_PLUGIN_FLAGS_H

#include "settings.h"

#include "llvm/Support/CommandLine.h"

namespace mlbridge::plugin {

/// An option of an optimization, such as -inliner-model. What the command line doesn't say, the
/// environment may, with MLBRIDGE_INLINER_MODEL: linkers read their options before they load
/// plugins. Made once, when the plugin is loaded.
class Flag {
public:
  Flag(llvm::StringRef Prefix, llvm::StringRef Option, llvm::StringRef Default,
       llvm::StringRef ValueName, llvm::StringRef Description)
      : Name((Prefix + "-" + Option).str()),
        Option(llvm::StringRef(Name), llvm::cl::init(Default.str()),
               llvm::cl::value_desc(ValueName), llvm::cl::desc(Description)) {}

  llvm::StringRef name() const { return Name; }
  std::string value() const;

private:
  const std::string Name;                    // which the option refers to
  mutable llvm::cl::opt<std::string> Option; ///< LLVM writes it
};

/// The options that each optimization has.
class Flags {
public:
  Flags(llvm::StringRef Prefix, llvm::StringRef Models, llvm::StringRef Levels);

  /// True if there is a model.
  bool given() const { return !Model.value().empty(); }
  Settings settings() const;

private:
  const llvm::StringRef Prefix;
  const Flag Model, Deadline, OnFailure, Levels, Fingerprint;
};

/// The options of an optimization in which LLVM's own advisors ask.
class AdvisorFlags : public Flags {
public:
  AdvisorFlags(llvm::StringRef Prefix, llvm::StringRef Models, llvm::StringRef Levels);

  Settings advisorSettings() const;

private:
  const Flag Missing, Log;
};

} // namespace mlbridge::plugin

#endif
