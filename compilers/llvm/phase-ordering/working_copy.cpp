// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "working_copy.h"

#include "versions/clone_module.h"

#include "llvm/ADT/STLExtras.h"

using namespace llvm;

namespace mlbridge::phase_ordering {

static std::unique_ptr<Module> copy(const Module &M) {
  // A map that grows while it is filled costs more than the rest of the copying.
  size_t Values = M.global_size() + M.size() + M.alias_size() + M.ifunc_size();
  for (const llvm::Function &F : M)
    Values += F.arg_size() + F.size() + F.getInstructionCount();
  ValueToValueMapTy Map(unsigned(Values + Values / 2));
  return versions::cloneModule(M, Map);
}

WorkingCopy::WorkingCopy(Module &Original, ModuleAnalysisManager &MAM)
    : Original(Original), MAM(MAM), Copy(copy(Original)) {}

WorkingCopy::~WorkingCopy() { forgetAnalyses(); }

void WorkingCopy::forgetAnalyses() {
  if (Copy)
    MAM.clear(*Copy, Copy->getName());
}

std::unique_ptr<Module> WorkingCopy::take() {
  forgetAnalyses();
  return std::move(Copy);
}

static void clear(Module &M) {
  M.dropAllReferences();
  while (!M.global_empty())
    M.global_begin()->eraseFromParent();
  while (!M.empty())
    M.begin()->eraseFromParent();
  while (!M.alias_empty())
    M.alias_begin()->eraseFromParent();
  while (!M.ifunc_empty())
    M.ifunc_begin()->eraseFromParent();
  while (!M.named_metadata_empty())
    M.eraseNamedMetadata(&*M.named_metadata_begin());
  M.getComdatSymbolTable().clear();
}

void replaceContents(Module &To, Module &From) {
  clear(To);
  for (GlobalVariable &Variable : make_early_inc_range(From.globals())) {
    From.removeGlobalVariable(&Variable);
    To.insertGlobalVariable(&Variable);
  }
  To.getFunctionList().splice(To.end(), From.getFunctionList());
  for (GlobalAlias &Alias : make_early_inc_range(From.aliases())) {
    From.removeAlias(&Alias);
    To.insertAlias(&Alias);
  }
  for (GlobalIFunc &IFunc : make_early_inc_range(From.ifuncs())) {
    From.removeIFunc(&IFunc);
    To.insertIFunc(&IFunc);
  }
  // Comdats belong to a module, so their members are pointed at the original's own.
  for (GlobalObject &Object : To.global_objects())
    if (const Comdat *Old = Object.getComdat()) {
      Comdat *New = To.getOrInsertComdat(Old->getName());
      New->setSelectionKind(Old->getSelectionKind());
      Object.setComdat(New);
    }
  for (NamedMDNode &Node : From.named_metadata()) {
    NamedMDNode *New = To.getOrInsertNamedMetadata(Node.getName());
    for (MDNode *Operand : Node.operands())
      New->addOperand(Operand);
  }
  To.setModuleInlineAsm(From.getModuleInlineAsm());
}

void WorkingCopy::commit() {
  forgetAnalyses();
  MAM.clear(Original, Original.getName());
  replaceContents(Original, *Copy);
  Copy.reset();
}

} // namespace mlbridge::phase_ordering
