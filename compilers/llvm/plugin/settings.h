// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Shared by the plugins for LLVM: the values of their options, and reports of failures.
#ifndef MLBRIDGE_LLVM_PLUGIN_SETTINGS_H
#define MLBRIDGE_LLVM_PLUGIN_SETTINGS_H

#include "shared/options.h"

#include "llvm/ADT/StringRef.h"
#include "llvm/IR/DiagnosticInfo.h"
#include "llvm/IR/Function.h"
#include "llvm/Support/CodeGen.h"

#include <string>

namespace mlbridge::plugin {

/// The options of one optimization. Its messages begin with their prefix.
struct Settings : ModelOptions {
  std::string Levels = "Os,Oz";
  std::string Missing = "refuse"; ///< or "zero": inputs of the model that LLVM does not send
  std::string Log;                ///< a folder for recordings, or empty

  /// The first option that makes no sense, as InvalidArgument.
  Status validate() const;
  /// Like validate(), but there may be no model.
  Status checkValues() const;
  /// True if the model is asked at this level ("Oz").
  bool wants(llvm::StringRef Level) const;
  /// True if the model is asked about a function for which code is generated at this level.
  bool wants(const llvm::Function &F, llvm::CodeGenOptLevel Level) const;

  void report(llvm::LLVMContext &Context, llvm::DiagnosticSeverity Severity,
              const llvm::Twine &Message) const;
  /// Reports a failure of the model: a warning, or with on-failure=fail an error.
  void giveUp(llvm::LLVMContext &Context, const Status &Failure,
              llvm::StringRef Consequence = "LLVM's own heuristic decides") const {
    giveUp(Context, describe(Failure), Consequence);
  }
  /// Reports another reason in the same way.
  void giveUp(llvm::LLVMContext &Context, const llvm::Twine &Why,
              llvm::StringRef Consequence) const;
  /// Reports that the command line is wrong: an error.
  void refuse(llvm::LLVMContext &Context, const Status &Failure) const;
};

/// The level at which a function is compiled: its attributes say it, also when linking, or else the
/// pipeline's.
llvm::StringRef levelOf(const llvm::Function &F, llvm::StringRef Pipeline);

/// A function with its file: "f.c:main".
std::string placeOf(const llvm::Function &F);

} // namespace mlbridge::plugin

#endif
