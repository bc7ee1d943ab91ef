// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef MLBRIDGE_LLVM_PHASE_ORDERING_SETTINGS_H
#define MLBRIDGE_LLVM_PHASE_ORDERING_SETTINGS_H

#include <mlbridge/deadline.h>
#include <mlbridge/status.h>

#include <cstdint>
#include <string>
#include <vector>

namespace mlbridge::phase_ordering {

/// What the command line says; see README.md.
struct Settings {
  std::string ModelUri;
  std::string ServeUri; ///< the pass waits there to be driven, instead of asking a model
  uint32_t MaxSteps = 0;
  Duration Deadline{};
  bool FailIsError = false;
  std::string LogFolder;
  std::vector<std::string> Levels; ///< of default pipelines, at which the model is asked

  /// From -phase-ordering-…; an option that makes no sense is an error that names it.
  static Expected<Settings> fromCommandLine();
};

} // namespace mlbridge::phase_ordering

#endif
