// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What the plugins share in which LLVM's own advisors ask a model: their options, the model, and
// how a failure is reported.
#ifndef MLBRIDGE_ADVICE_ADVICE_H
#define MLBRIDGE_ADVICE_ADVICE_H

#include <mlbridge/llvm_model_runner.h>

#include "llvm/ADT/StringRef.h"
#include "llvm/IR/Function.h"
#include "llvm/IR/Module.h"
#include "llvm/Support/CodeGen.h"

#include <memory>

namespace mlbridge::advice {

/// What the options of one question (inliner, regalloc-eviction, regalloc-priority) say.
struct Settings {
  llvm::StringRef Prefix; ///< of the options: "inliner" for -inliner-model
  std::string Model;      ///< a URI
  std::string Deadline = "5s";
  std::string OnFailure = "stock"; ///< or "fail"
  std::string Levels = "Os,Oz";
  std::string Missing = "refuse"; ///< or "zero": inputs of the model that LLVM does not send
  std::string Log;                ///< a folder, or nothing

  /// InvalidArgument names the option.
  Status check() const;
  bool mustNotFail() const { return OnFailure == "fail"; }
  /// Whether the model is asked at this level ("Oz").
  bool wants(llvm::StringRef Level) const;
  /// Whether it is asked about a function for which code is generated at this level.
  bool wants(const llvm::Function &F, llvm::CodeGenOptLevel Level) const;
};

/// The level at which a function is compiled: its attributes say it, also when linking, or else the
/// pipeline's.
llvm::StringRef levelOf(const llvm::Function &F, llvm::StringRef Pipeline);

/// The model, opened once for the whole process: modules compiled in several threads share it.
/// Thread-safe. Blocks until the deadline at most. A failure is in its status().
Model opened(const Settings &Options);

/// A runner of it for this module, to be used by one thread. Never null; a failure is in its
/// status().
std::unique_ptr<LLVMModelRunner> newRunner(const Settings &Options, const Model &Of,
                                           const llvm::Module &M,
                                           const std::vector<llvm::TensorSpec> &Features,
                                           const llvm::TensorSpec &Advice);

/// A warning, or with on-failure=fail an error, that names the question.
void giveUp(const Settings &Options, llvm::LLVMContext &Context, const Status &Why,
            llvm::StringRef Instead = "LLVM's own heuristic decides");
/// An error: the command line is wrong.
void refuse(const Settings &Options, llvm::LLVMContext &Context, const Status &Why);

} // namespace mlbridge::advice

#endif
