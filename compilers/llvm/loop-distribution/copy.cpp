// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "copy.h"

#include "llvm/IR/DebugInfoMetadata.h"
#include "llvm/Transforms/Utils/Cloning.h"

using namespace llvm;

namespace mlbridge::loop_distribution {

Copy::Copy(Function &Original, FunctionAnalysisManager &Manager)
    // A name that is there already would be numbered, and with it the next one of the module.
    : Manager(Manager),
      Clone(Function::Create(Original.getFunctionType(), Original.getLinkage(),
                             Original.getAddressSpace(), "", Original.getParent())) {
  ValueToValueMapTy Copies;
  for (auto [From, To] : zip_equal(Original.args(), Clone->args())) {
    To.setName(From.getName());
    Copies[&From] = &To;
  }
  // Without this, the function's debug information would be copied.
  if (DISubprogram *const Described = Original.getSubprogram())
    Copies.MD()[Described].reset(Described);
  SmallVector<ReturnInst *, 4> Returns;
  CloneFunctionInto(Clone, &Original, Copies, CloneFunctionChangeType::LocalChangesOnly, Returns);
  for (BasicBlock &Block : Original)
    if (const auto End = Copies.find(Block.getTerminator()); End != Copies.end())
      Ends[cast<Instruction>(End->second)] = Block.getTerminator();
}

Copy::~Copy() {
  Manager.clear(*Clone, Clone->getName());
  Clone->eraseFromParent();
}

} // namespace mlbridge::loop_distribution
