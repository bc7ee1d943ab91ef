// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "scratch.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/IR/PatternMatch.h"
#include "mlir/IR/Verifier.h"
#include "mlir/Transforms/RegionUtils.h"

#include "llvm/Support/Threading.h"

using namespace mlir;

namespace mlbridge::tiling {

Quiet::Quiet(MLIRContext *Context)
    : Handler(Context, [this, Here = llvm::get_threadid()](Diagnostic &Message) {
        if (llvm::get_threadid() != Here)
          return failure(); // another pass's
        if (Error.empty() && Message.getSeverity() == DiagnosticSeverity::Error)
          Error = Message.str();
        return success();
      }) {}

Scratch::Scratch(linalg::LinalgOp Given) : Original(Given) {
  const Location Where = Original->getLoc();
  Used.insert(Original->operand_begin(), Original->operand_end());
  getUsedValuesDefinedAbove(Original->getRegions(), Used);
  OpBuilder To(Original->getContext());
  Module = ModuleOp::create(To, Where);
  To.setInsertionPointToStart(Module->getBody());
  const auto Types = To.getFunctionType(TypeRange(Used.getArrayRef()), Original->getResultTypes());
  auto Function = func::FuncOp::create(To, Where, "tiles", Types);
  Body = Function.addEntryBlock();
  IRMapping Inside;
  Inside.map(Used.getArrayRef(), Body->getArguments());
  To.setInsertionPointToStart(Body);
  Copy = cast<linalg::LinalgOp>(To.clone(*Original, Inside));
  func::ReturnOp::create(To, Where, Copy->getResults());
}

/// The operations around this one may not take what is valid in a function.
static bool isValidAround(Operation *Op) {
  for (Operation *Around = Op->getParentOp(); Around; Around = Around->getParentOp()) {
    if (failed(verify(Around, /*verifyRecursively=*/false)))
      return false;
    if (Around->hasTrait<OpTrait::IsIsolatedFromAbove>())
      break;
  }
  return true;
}

std::string Scratch::replaceOriginal() {
  const Quiet Silence(Original->getContext());
  const auto Why = [&] {
    return Silence.firstError().empty() ? "what linalg made of it is not valid"
                                        : ("MLIR says " + Silence.firstError()).str();
  };
  if (failed(verify(*Module)))
    return Why();
  for (const auto [Inside, Outside] : llvm::zip_equal(Body->getArguments(), Used))
    Inside.replaceAllUsesWith(Outside);
  Operation *const End = Body->getTerminator();
  const SmallVector<Value> Results(End->getOperands());
  End->erase();
  SmallVector<Operation *> Moved;
  for (Operation &Next : *Body)
    Moved.push_back(&Next);
  Original->getBlock()->getOperations().splice(Original->getIterator(), Body->getOperations());
  SmallVector<std::tuple<OpOperand *, Value, Value>> Uses;
  for (const auto [Old, New] : llvm::zip_equal(Original->getResults(), Results))
    for (OpOperand &Use : Old.getUses())
      Uses.emplace_back(&Use, Old, New);
  for (const auto &[Use, Old, New] : Uses)
    Use->set(New);
  if (isValidAround(Original)) {
    Original->erase();
    return "";
  }
  for (const auto &[Use, Old, New] : Uses)
    Use->set(Old);
  for (Operation *Next : llvm::reverse(Moved))
    Next->erase();
  return Why();
}

} // namespace mlbridge::tiling
