// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The log of one module's decisions: JSON lines, as README.md describes them.
#ifndef MLBRIDGE_LLVM_PHASE_ORDERING_EPISODE_LOG_H
#define MLBRIDGE_LLVM_PHASE_ORDERING_EPISODE_LOG_H

#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"

#include <cstdint>
#include <string>
#include <vector>

namespace mlbridge::phase_ordering {

struct Decision {
  uint64_t Action = 0;
  std::string Name;
  std::string Features; ///< digest of the features that the model saw
  uint64_t Instructions = 0;
};

enum class Outcome { Stop, Limit, Failed };

struct EpisodeLog {
  std::string Module;
  std::string Source;
  std::string Model;       ///< URI
  std::string Observation; ///< its version
  std::string ActionsDigest;
  std::string Actions; ///< the list itself, as JSON text
  std::vector<Decision> Decisions;
  Outcome End = Outcome::Failed;
  std::string Message; ///< why it failed

  /// Writes a new file of the folder, which is made if missing. The file appears complete or not at
  /// all. Its name starts with logPrefix(Source) and is unique.
  llvm::Error write(llvm::StringRef Folder) const;
  /// Errors name the file and line.
  static llvm::Expected<EpisodeLog> read(llvm::StringRef Path);
};

/// The source's file name with everything but letters, digits, '.', '_' and '-' replaced.
std::string logPrefix(llvm::StringRef Source);
inline constexpr llvm::StringLiteral LogExtension = ".jsonl";

} // namespace mlbridge::phase_ordering

#endif
