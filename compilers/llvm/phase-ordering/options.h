// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef MLBRIDGE_LLVM_PHASE_ORDERING_OPTIONS_H
#define MLBRIDGE_LLVM_PHASE_ORDERING_OPTIONS_H

#include "observation.h"

#include <mlbridge/deadline.h>

#include "llvm/ADT/StringRef.h"

#include <cstdint>
#include <string>

namespace mlbridge::phase_ordering {

/// The options of the command line, which begin with -phase-ordering-.
struct Options {
  std::string Model, Serve; ///< URIs, or empty
  std::string Actions;      ///< a file, or empty
  const ObservationKind *Observation = nullptr;
  std::string Vocabulary; ///< a file, or empty
  bool KeepStates = false;
  std::string StateFile;
  uint32_t MaxSteps = 0; ///< 0: not given
  Duration Deadline{};
  bool MustNotFail = false;
  std::string LogFolder;
  uint32_t Effort = 0;
  std::string Levels; ///< with commas between

  /// True if the model is asked in pipelines of this level ("Oz").
  bool hasLevel(llvm::StringRef Level) const;
};

/// Reads the command line. InvalidArgument names an option that makes no sense.
Expected<Options> readOptions();

} // namespace mlbridge::phase_ordering

#endif
