// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The operations that may be tiled, and how. The conditions that linalg's own tiling and
// vectorization take for granted are checked here, before anything is changed.
#ifndef MLBRIDGE_MLIR_TILING_LEGALITY_H
#define MLBRIDGE_MLIR_TILING_LEGALITY_H

#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Interfaces/CallInterfaces.h"
#include "mlir/Interfaces/FunctionInterfaces.h"

namespace mlbridge::tiling {

inline constexpr int64_t MaxLoops = 10; ///< 3-D convolutions have 9

/// Knows the memory that operations share, as far as a module shows it.
class Memory {
public:
  /// The module's functions and calls stay as they are while this lives.
  explicit Memory(mlir::Operation *Module);

  /// True if an iteration may read what another one writes, other than its sums.
  bool outputsOverlap(mlir::linalg::LinalgOp Op) const;

private:
  using Pairs = llvm::SmallDenseSet<std::pair<mlir::Value, mlir::Value>>;
  bool mayOverlap(mlir::Value One, mlir::Value Other, Pairs &Seen) const;
  bool mayOverlapItself(mlir::Value Memref, Pairs &Seen) const;
  /// True if a call may give the function such arguments: one that is seen does, or one that isn't
  /// may, because something other than a call names the function.
  bool someCall(mlir::FunctionOpInterface Function,
                llvm::function_ref<bool(mlir::OperandRange)> Gives) const;
  llvm::DenseMap<mlir::Operation *, llvm::SmallVector<mlir::CallOpInterface>> Calls;
  llvm::DenseSet<mlir::StringAttr> NamedElsewhere; ///< functions, in other than direct calls
  bool SomeOverlap = false; ///< an operation makes a memref that may overlap itself
  bool HasOuter;            ///< another module is around it, which may call what isn't private
};

/// True if the module says itself how it is transformed, by a schedule of the transform dialect.
bool hasSchedule(mlir::Operation *Module);

/// Why the model isn't asked about the operation; empty if it is.
std::string refusal(mlir::linalg::LinalgOp Op, const Memory &Shared);

/// True if the iterations of reductions may come in any order: each output is a sum, product,
/// minimum or maximum, or the like. With FloatSums, floating-point numbers may be summed and
/// multiplied in any order.
bool takesAnyOrder(mlir::linalg::LinalgOp Op, bool FloatSums);

/// True if the iterations of reductions come in the same order in tiles of these sizes.
bool keepsOrder(mlir::linalg::LinalgOp Op, llvm::ArrayRef<int64_t> Sizes);

/// Why the operation can't become one on vectors; empty if it can.
std::string refusesVectors(mlir::linalg::LinalgOp Op);

} // namespace mlbridge::tiling

#endif
