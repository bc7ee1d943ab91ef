// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A place where operations are rewritten, so that a failure changes nothing.
#ifndef MLBRIDGE_MLIR_TILING_SCRATCH_H
#define MLBRIDGE_MLIR_TILING_SCRATCH_H

#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/Diagnostics.h"
#include "mlir/IR/OwningOpRef.h"

namespace mlbridge::tiling {

/// Keeps MLIR's diagnostics of this thread instead of printing them.
class Quiet {
public:
  explicit Quiet(mlir::MLIRContext *Context);
  llvm::StringRef firstError() const { return Error; }

private:
  std::string Error;
  mlir::ScopedDiagnosticHandler Handler;
};

/// A copy of an operation, alone in a module of its own.
class Scratch {
public:
  explicit Scratch(mlir::linalg::LinalgOp Original);
  mlir::linalg::LinalgOp copy() const { return Copy; }

  /// Puts the rewritten copy in the original's place, and erases the original. Returns why not, if
  /// that isn't valid; then the original is as it was.
  std::string replaceOriginal();

private:
  mlir::linalg::LinalgOp Original, Copy;
  mlir::OwningOpRef<mlir::ModuleOp> Module;
  mlir::Block *Body = nullptr;
  llvm::SetVector<mlir::Value> Used; ///< each is an argument of Body
};

} // namespace mlbridge::tiling

#endif
