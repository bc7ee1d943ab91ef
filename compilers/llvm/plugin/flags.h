// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef MLBRIDGE_LLVM_PLUGIN_FLAGS_H
#define MLBRIDGE_LLVM_PLUGIN_FLAGS_H

#include "settings.h"

#include "llvm/IR/Module.h"
#include "llvm/Support/CommandLine.h"

#include <optional>
#include <string>

namespace mlbridge::plugin {

/// An option of an optimization, such as -inliner-model. What the command line doesn't say, the
/// environment may, with MLBRIDGE_INLINER_MODEL: linkers read their options before they load
/// plugins. After both comes what OptionsOfModule has read. Made once, when the plugin is loaded.
class Flag {
public:
  Flag(llvm::StringRef Prefix, llvm::StringRef Option, llvm::StringRef Default,
       llvm::StringRef ValueName, llvm::StringRef Description);

  llvm::StringRef name() const { return Name; }
  std::string value() const;
  /// What command line or environment say, if they do.
  std::optional<std::string> stated() const;

private:
  const std::string Name;                    // which the option refers to
  mutable llvm::cl::opt<std::string> Option; ///< LLVM writes it
};

/// Carries options from a compilation to the link that generates the code, with the module itself:
/// so files that were compiled differently are told apart, and caches of a link see a difference.
/// They are in the module flag "mlbridge.PREFIX", which a merged module has of all its parts.
class OptionsOfModule {
public:
  /// Keeps in the module all that is stated of this plugin's options.
  static void write(llvm::Module &M, llvm::StringRef Prefix);
  /// From now on, options of this thread that nothing else states are those of the module. False
  /// if its parts have different ones; none holds then.
  static bool read(const llvm::Module &M, llvm::StringRef Prefix);
  /// Options of this thread are no longer those of a module.
  static void forget();
};

/// The options that each optimization has.
class Flags {
public:
  Flags(llvm::StringRef Prefix, llvm::StringRef Models, llvm::StringRef Levels);

  /// True if there is a model.
  bool given() const { return !Model.value().empty(); }
  /// True if command line or environment name it, not a module.
  bool stated() const { return Model.stated().has_value(); }
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
