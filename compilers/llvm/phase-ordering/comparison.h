// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Optimizes one module by several candidates at once, each in a process of its own, and keeps the
// smallest code: that of the stock pipeline, unless a candidate's is smaller.
#ifndef MLBRIDGE_LLVM_PHASE_ORDERING_COMPARISON_H
#define MLBRIDGE_LLVM_PHASE_ORDERING_COMPARISON_H

#include "candidates.h"

#include "llvm/IR/Module.h"
#include "llvm/IR/PassManager.h"
#include "llvm/Passes/PassBuilder.h"

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace mlbridge::phase_ordering {

/// The end of a candidate's run.
enum class RunEnd : uint32_t {
  NotTried,
  Measured,
  Refused, ///< it makes no code that could take the place of the stock pipeline's
  Crashed, ///< LLVM's passes or code generator did, as they would each time
  TooManyPasses,
  TooLong,
  BadOption, ///< LLVM refuses the value of an option
  Killed,    ///< from outside, or for want of memory
};

/// One try of a candidate, or of the stock pipeline.
struct CandidateRun {
  RunEnd End = RunEnd::NotTried;
  uint64_t Bytes = 0;          ///< of code, if it was measured
  double PassSeconds = 0;      ///< of a processor
  double MeasuringSeconds = 0; ///< of a processor
};

/// The result of a comparison.
struct Selection {
  std::vector<Candidate> Candidates;
  std::vector<CandidateRun> Runs; ///< one for each candidate
  CandidateRun Stock;             ///< of the stock pipeline, which the compiler itself has run
  std::optional<size_t> Winner;
  bool IsLink = false;
  std::string Problem; ///< why nothing was compared, or empty; the stock pipeline has won
};

/// Called once for each module, in the process and thread that compile it, before its code is
/// generated or its bitcode written. The module still has what the stock pipeline has made.
using Selected = std::function<void(llvm::Module &, const Selection &)>;

/// To be called when a pipeline of this thread begins: options that were set for the code of the
/// last module no longer hold, and runs for it that nobody has asked for are ended.
void forgetLastModule();

/// Makes startComparison possible in the pipelines of this builder.
void registerComparison(llvm::PassBuilder &PB);

/// Starts to try the candidates on the module as it is now, and returns false. The caller goes on
/// with the stock pipeline; when that is done, it is compared with them, the contents of the module
/// are replaced if one of them is better, and `Report` is called. Returns true in the processes
/// of candidate runs: there the module has been optimized, and its pipeline must go on without the
/// stock optimizations. These processes end before anything is written, and cannot print.
///
/// A candidate is measured as a whole compilation: with what else is in the pipeline of the host,
/// and by its own code generator. One that crashes is left out. If one is killed, runs more passes
/// than a limit that grows with the module, or takes longer than a minute (in a link, a second more
/// for each 1000 instructions), the stock pipeline wins. Requires trial::whyNot().empty(), but in a
/// link.
///
/// A linker has several threads, which share LLVM's options. So with `IsLink` the options of a
/// candidate hold in its own process alone: that generates the code, and if it is the smallest, the
/// module's contents are replaced by the assembly of it.
bool startComparison(llvm::Module &M, llvm::ModuleAnalysisManager &MAM,
                     std::vector<Candidate> Candidates, bool IsLink, Selected Report);

} // namespace mlbridge::phase_ordering

#endif
