// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The pass: asks a model for the groups to run on a module, and reports what came of it.
#ifndef MLBRIDGE_LLVM_PHASE_ORDERING_PHASE_ORDERING_PASS_H
#define MLBRIDGE_LLVM_PHASE_ORDERING_PHASE_ORDERING_PASS_H

#include "llvm/IR/PassManager.h"

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

/// Runs one episode. True if the module now is what the model made of it; otherwise it is as it
/// was, and one diagnostic says why: a remark where there was nothing to decide. `Level` is that of
/// the pipeline ("Oz"), or empty where the pass was named itself, which asks the model whatever the
/// levels. Several modules at once, in as many threads, do not disturb each other.
bool choosePasses(llvm::Module &M, llvm::ModuleAnalysisManager &MAM, llvm::StringRef Level);

/// A remark that the module is left to the usual passes, and why.
void leaveAlone(llvm::Module &M, llvm::StringRef Why);

/// For opt's -passes=phase-ordering.
class PhaseOrderingPass : public llvm::PassInfoMixin<PhaseOrderingPass> {
public:
  llvm::PreservedAnalyses run(llvm::Module &M, llvm::ModuleAnalysisManager &MAM) {
    return choosePasses(M, MAM, "") ? llvm::PreservedAnalyses::none()
                                    : llvm::PreservedAnalyses::all();
  }
  static bool isRequired() { return true; }
};

} // namespace mlbridge::phase_ordering

#endif
