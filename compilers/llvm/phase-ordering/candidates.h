// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef MLBRIDGE_LLVM_PHASE_ORDERING_CANDIDATES_H
#define MLBRIDGE_LLVM_PHASE_ORDERING_CANDIDATES_H

#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"
#include "llvm/TargetParser/Triple.h"

#include <string>
#include <vector>

namespace mlbridge::phase_ordering {

/// A way to optimize a module that may be tried.
struct Candidate {
  std::string Name;
  std::vector<std::string> Pipelines; ///< as for opt -passes; run in order
  /// The pipelines run after the stock pipeline, not in its place. That is cheaper, as the stock
  /// pipeline runs in any case.
  bool AfterStock = false;
  /// LLVM's own options that hold meanwhile, and in the code generation after it, as for
  /// clang -mllvm: "disable-lsr", "enable-machine-outliner=always".
  std::vector<std::string> Options;
  llvm::Triple::ArchType Target = llvm::Triple::UnknownArch; ///< if known, for no other
  bool IsKnown = true; ///< false: LLVM 19 has not all of its passes, so it cannot be tried
};

/// The candidates that a model or a file brings.
///
/// {"version": 1, "candidates": [{"name": …, "passes": …, "after_stock": …, "options": […],
/// "target": …}, …]}; every pipeline is parsed, every option looked up. The error names the
/// candidate and gives LLVM's message. As lists are written for LLVM 22, LLVM 19 ignores options
/// that it lacks, and refuses a list only if it knows none of the candidates.
llvm::Expected<std::vector<Candidate>> parseCandidates(llvm::StringRef Json);

} // namespace mlbridge::phase_ordering

#endif
