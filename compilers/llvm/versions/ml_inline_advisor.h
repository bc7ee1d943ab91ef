// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// LLVM 22 asks for the runner once it knows the features; in 19 they were the same for all.
#ifndef MLBRIDGE_VERSIONS_ML_INLINE_ADVISOR_H
#define MLBRIDGE_VERSIONS_ML_INLINE_ADVISOR_H

#include "llvm/Analysis/InlineModelFeatureMaps.h"
#include "llvm/Analysis/MLInlineAdvisor.h"
#include "llvm/Config/llvm-config.h"

namespace mlbridge::versions {

using NewModelRunner = std::function<std::unique_ptr<llvm::MLModelRunner>(
    const std::vector<llvm::TensorSpec> &Features)>;

/// The argument of MLInlineAdvisor's constructor.
inline auto modelRunner(const NewModelRunner &Make) {
#if LLVM_VERSION_MAJOR >= 22
  return Make;
#else
  return Make(llvm::FeatureMap);
#endif
}

} // namespace mlbridge::versions

#endif
