// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A profile of the user's own: counts of clang's -fprofile-generate or -fprofile-instr-generate,
// merged by llvm-profdata.
#ifndef MLBRIDGE_LLVM_HOTNESS_PROFILE_H
#define MLBRIDGE_LLVM_HOTNESS_PROFILE_H

#include <mlbridge/status.h>

#include "llvm/ADT/StringMap.h"
#include "llvm/IR/Function.h"

#include <memory>
#include <optional>
#include <string>

namespace mlbridge::hotness {

class Profile {
public:
  /// Reads a file, once for the whole process. Thread-safe. NotFound or InvalidArgument, with the
  /// file's name, if it can't be read or counts nothing.
  static Expected<std::shared_ptr<const Profile>> open(const std::string &File);

  /// The part of all counts that are this function's; nothing if the profile doesn't know it.
  std::optional<double> shareOf(const llvm::Function &F) const;

private:
  llvm::StringMap<double> Counts;
  double Total = 0;
};

} // namespace mlbridge::hotness

#endif
