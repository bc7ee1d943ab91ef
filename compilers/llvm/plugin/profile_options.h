// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Whether a pipeline counts for a profile or uses one, which the module says only after the passes
// at which a plugin can begin.
#ifndef MLBRIDGE_LLVM_PLUGIN_PROFILE_OPTIONS_H
#define MLBRIDGE_LLVM_PLUGIN_PROFILE_OPTIONS_H

#include "llvm/Passes/PassBuilder.h"
#include "llvm/Support/PGOOptions.h"

#include <optional>

namespace mlbridge::plugin {

namespace detail {
const std::optional<llvm::PGOOptions> &profileOptionsOf(const llvm::PassBuilder &Builder);
// PassBuilder has no function that gives them; an explicit instantiation may name what is private
// (C++17, [temp.spec] 6).
template <auto Member> struct ProfileOptions {
  friend const std::optional<llvm::PGOOptions> &profileOptionsOf(const llvm::PassBuilder &Builder) {
    return Builder.*Member;
  }
};
template struct ProfileOptions<&llvm::PassBuilder::PGOOpt>;
} // namespace detail

/// True with -fprofile-generate, -fprofile-use and -fprofile-sample-use.
inline bool hasProfile(const llvm::PassBuilder &Builder) {
  const std::optional<llvm::PGOOptions> &Given = detail::profileOptionsOf(Builder);
  return Given && (Given->Action != llvm::PGOOptions::NoAction ||
                   Given->CSAction != llvm::PGOOptions::NoCSAction);
}

} // namespace mlbridge::plugin

#endif
