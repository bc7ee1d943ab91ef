// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// LLVM 22 hands triples around where 19 has their texts.
#ifndef MLBRIDGE_VERSIONS_TARGET_TRIPLE_H
#define MLBRIDGE_VERSIONS_TARGET_TRIPLE_H

#include "llvm/Config/llvm-config.h"
#include "llvm/IR/Module.h"
#include "llvm/TargetParser/Triple.h"

namespace mlbridge::versions {

inline llvm::Triple tripleOf(const llvm::Module &M) { return llvm::Triple(M.getTargetTriple()); }

/// The argument of LLVM's functions.
#if LLVM_VERSION_MAJOR >= 22
inline llvm::Triple given(const llvm::Triple &T) { return T; }
#else
inline std::string given(const llvm::Triple &T) { return T.str(); }
#endif

} // namespace mlbridge::versions

#endif
