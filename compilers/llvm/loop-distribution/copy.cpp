// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "copy.h"

#include "llvm/IR/DebugInfoMetadata.h"
#include "llvm/Transforms/Utils/Cloning.h"

using namespace llvm;

namespace mlbridge::distribution {

Copy::Copy(Function &Of, FunctionAnalysisManager &Manager)
    // A name that is there already would be numbered, and with it the next one of the module.
    : Manager(Manager), Made(Function::Create(Of.getFunctionType(), Of.getLinkage(),
                                              Of.getAddressSpace(), "", Of.getParent())) {
  ValueToValueMapTy Copies;
  for (auto [From, To] : zip_equal(Of.args(), Made->args())) {
    To.setName(From.getName());
    Copies[&From] = &To;
  }
  // Or else all that describes the function to debuggers would be copied.
  if (DISubprogram *const Described = Of.getSubprogram())
    Copies.MD()[Described].reset(Described);
  SmallVector<ReturnInst *, 4> Returns;
  CloneFunctionInto(Made, &Of, Copies, CloneFunctionChangeType::LocalChangesOnly, Returns);
  for (BasicBlock &Block : Of)
    if (const auto End = Copies.find(Block.getTerminator()); End != Copies.end())
      Ends[cast<Instruction>(End->second)] = Block.getTerminator();
}

Copy::~Copy() {
  Manager.clear(*Made, Made->getName());
  Made->eraseFromParent();
}

} // namespace mlbridge::distribution
