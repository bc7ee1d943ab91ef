// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef MLBRIDGE_LLVM_PHASE_ORDERING_OPTIONS_H
#define MLBRIDGE_LLVM_PHASE_ORDERING_OPTIONS_H

#include "observation.h"
#include "plugin/settings.h"

#include "llvm/IR/Module.h"

#include <cstdint>
#include <optional>
#include <string>
#include <utility>

namespace mlbridge::phase_ordering {

/// The options of the command line, which begin with -phase-ordering-.
struct Options : plugin::Settings {
  explicit Options(plugin::Settings Common) : Settings(std::move(Common)) {}

  bool Serves = false; ///< the model's URI is where a driver is waited for
  std::string Actions; ///< a file, or empty
  const ObservationKind *Observation = nullptr;
  std::string Vocabulary; ///< a file, or empty
  bool KeepStates = false;
  bool RewardsLast = false; ///< code is generated when an episode ends, not after each step
  std::string StateFile;
  uint32_t MaxSteps = 0; ///< 0: not given
  uint32_t Effort = 0;

  /// Reports, as the options say, why the module is left to the usual passes.
  void giveUpOn(const llvm::Module &M, const llvm::Twine &Why) const;
};

/// True if the options name a model.
bool hasModel();
/// False if the model, which a module names, would have code loaded into this process: whoever
/// made the module need not be who links it.
bool isModelSafe();

/// Reads the command line. A value that makes no sense is reported as an error, and there are no
/// options.
std::optional<Options> readOptions(llvm::LLVMContext &Context);

} // namespace mlbridge::phase_ordering

#endif
