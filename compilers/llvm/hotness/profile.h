// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef MLBRIDGE_LLVM_HOTNESS_PROFILE_H
#define MLBRIDGE_LLVM_HOTNESS_PROFILE_H

#include <mlbridge/function.h>
#include <mlbridge/uri.h>

namespace mlbridge::hotness {

/// profile:FILE, a model that decides by the user's own profile: counts of clang's
/// -fprofile-generate or -fprofile-instr-generate, merged by llvm-profdata. Functions that the
/// profile doesn't know are compiled for speed; a module of which it knows less than a quarter is
/// Mismatch. NotFound or InvalidArgument if the file can't be read or counts nothing. Each file is
/// read once in a process. Thread-safe.
Expected<FunctionModel> openProfile(const Uri &From);

} // namespace mlbridge::hotness

#endif
