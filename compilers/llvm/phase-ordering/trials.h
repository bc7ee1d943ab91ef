// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Optimizes one module in several ways at once, each in a process of its own, and keeps the way
// whose code is smallest: that of the stock pipeline, unless another one is smaller.
#ifndef MLBRIDGE_LLVM_PHASE_ORDERING_TRIALS_H
#define MLBRIDGE_LLVM_PHASE_ORDERING_TRIALS_H

#include "llvm/IR/Module.h"
#include "llvm/IR/PassManager.h"
#include "llvm/Passes/PassBuilder.h"
#include "llvm/Support/Error.h"

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace llvm::cl {
class Option;
}

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
  bool IsKnown = true; ///< false: LLVM 19 has not all of its passes, so it cannot be tried
};

/// The candidates that a model or a file brings.
///
/// {"version": 1, "candidates": [{"name": …, "passes": …, "after_stock": …, "options": […]}, …]};
/// every pipeline is parsed, every option looked up. The error names the candidate and gives LLVM's
/// message. As lists are written for LLVM 22, LLVM 19 ignores options that it lacks, and refuses a
/// list only if it knows none of the candidates.
llvm::Expected<std::vector<Candidate>> parseCandidates(llvm::StringRef Json);

/// The option of LLVM that a setting such as "disable-lsr" or "name=value" is of, or null.
llvm::cl::Option *findOption(llvm::StringRef Setting);

enum class TrialEnd : uint32_t {
  NotTried,
  Measured,
  Refused, ///< it makes no code that could take the place of the stock pipeline's
  Crashed,
  TooManyPasses,
  TooLong,
  BadOption, ///< LLVM refuses the value of an option
};

struct Trial {
  TrialEnd End = TrialEnd::NotTried;
  uint64_t Bytes = 0;          ///< of code, if it was measured
  double PassSeconds = 0;      ///< of a processor
  double MeasuringSeconds = 0; ///< of a processor
};

struct Selection {
  std::vector<Candidate> Candidates;
  std::vector<Trial> Trials; ///< of each candidate
  Trial Stock;               ///< of the stock pipeline, which the compiler itself has run
  std::optional<size_t> Winner;
  std::string Problem; ///< why nothing was compared, or empty; the stock pipeline has won
};

/// Is called once for each module, in the process and thread that compile it, before its code is
/// generated or its bitcode written.
using Selected = std::function<void(llvm::Module &, const Selection &)>;

/// To be called when a pipeline of this thread begins: options that were set for the code of the
/// last module no longer hold, and trials of it that nobody has asked for are ended.
void forgetLastModule();

/// Makes startTrials possible in the pipelines of this builder.
void registerTrials(llvm::PassBuilder &PB);

/// Starts to try the candidates on the module as it is now, and returns false. The caller goes on
/// with the stock pipeline; when that is done, it is compared with them, the contents of the module
/// are replaced if one of them is better, and `Report` is called. Returns true in the processes
/// that try: there the module has been optimized, and its pipeline must go on without the stock
/// optimizations. These processes end before anything is written, and cannot print.
///
/// A candidate is measured as a whole compilation: with what else is in the pipeline of the host,
/// and by its own code generator. If one crashes, runs more passes than a limit that grows with the
/// module, or takes longer than a minute, the stock pipeline wins. Requires
/// trial::whyNot().empty().
bool startTrials(llvm::Module &M, llvm::ModuleAnalysisManager &MAM,
                 std::vector<Candidate> Candidates, Selected Report);

} // namespace mlbridge::phase_ordering

#endif
