// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// LLVM's CloneModule copies function by function, and crashes at the label of a later one; LLVM 19
// copies variables before functions, and loses the labels in the variables.
#ifndef MLBRIDGE_VERSIONS_CLONE_MODULE_H
#define MLBRIDGE_VERSIONS_CLONE_MODULE_H

#include "llvm/ADT/SmallPtrSet.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/Bitcode/BitcodeReader.h"
#include "llvm/Bitcode/BitcodeWriter.h"
#include "llvm/Config/llvm-config.h"
#include "llvm/IR/Constants.h"
#include "llvm/IR/Instruction.h"
#include "llvm/IR/Module.h"
#include "llvm/Support/raw_ostream.h"
#include "llvm/Transforms/Utils/Cloning.h"
#include "llvm/Transforms/Utils/ValueMapper.h"

#include <memory>

namespace mlbridge::versions {

namespace detail {

/// True if a function has the label of a block of another one, which no C program does by itself.
inline bool hasForeignLabels(const llvm::Module &M) {
  llvm::SmallVector<const llvm::Value *> Uses;
  llvm::SmallPtrSet<const llvm::Value *, 16> Seen;
  for (const llvm::Function &F : M)
    for (const llvm::BasicBlock &Block : F) {
      if (const llvm::Value *Label = llvm::BlockAddress::lookup(&Block))
        Uses.push_back(Label);
      Seen.clear();
      while (!Uses.empty()) {
        const llvm::Value *V = Uses.pop_back_val();
        if (const auto *Use = llvm::dyn_cast<llvm::Instruction>(V); Use && Use->getFunction() != &F)
          return true;
        if (llvm::isa<llvm::Constant>(V) && !llvm::isa<llvm::GlobalValue>(V) &&
            Seen.insert(V).second)
          Uses.append(V->user_begin(), V->user_end());
      }
    }
  return false;
}

/// A copy by way of bitcode, or null.
inline std::unique_ptr<llvm::Module> reread(const llvm::Module &M) {
  llvm::SmallVector<char, 0> Bytes;
  llvm::raw_svector_ostream Out(Bytes);
  llvm::WriteBitcodeToFile(M, Out, /*ShouldPreserveUseListOrder=*/true);
  llvm::Expected<std::unique_ptr<llvm::Module>> Read = llvm::parseBitcodeFile(
      llvm::MemoryBufferRef(Out.str(), M.getModuleIdentifier()), M.getContext());
  if (!Read) {
    llvm::consumeError(Read.takeError());
    return nullptr;
  }
  return std::move(*Read);
}

#if LLVM_VERSION_MAJOR < 22
/// The variables whose values have a label of a computed goto.
inline llvm::SmallPtrSet<const llvm::GlobalValue *, 4> variablesWithLabels(const llvm::Module &M) {
  llvm::SmallPtrSet<const llvm::GlobalValue *, 4> Variables;
  llvm::SmallVector<const llvm::Value *> Uses;
  for (const llvm::Function &F : M)
    for (const llvm::BasicBlock &Block : F)
      if (const llvm::Value *Label = llvm::BlockAddress::lookup(&Block))
        Uses.push_back(Label);
  llvm::SmallPtrSet<const llvm::Value *, 16> Seen;
  while (!Uses.empty()) {
    const llvm::Value *V = Uses.pop_back_val();
    if (!Seen.insert(V).second)
      continue;
    if (const auto *Variable = llvm::dyn_cast<llvm::GlobalVariable>(V))
      Variables.insert(Variable);
    else if (llvm::isa<llvm::Constant>(V))
      Uses.append(V->user_begin(), V->user_end());
  }
  return Variables;
}

#endif
} // namespace detail

/// LLVM's CloneModule.
inline std::unique_ptr<llvm::Module> cloneModule(const llvm::Module &M,
                                                 llvm::ValueToValueMapTy &Map) {
  if (detail::hasForeignLabels(M))
    if (std::unique_ptr<llvm::Module> Copy = detail::reread(M))
      return Copy;
#if LLVM_VERSION_MAJOR >= 22
  return llvm::CloneModule(M, Map);
#else
  const auto Late = detail::variablesWithLabels(M);
  const auto IsEarly = [&](const llvm::GlobalValue *G) { return !Late.contains(G); };
  std::unique_ptr<llvm::Module> Copy = llvm::CloneModule(M, Map, IsEarly);
  for (const llvm::GlobalVariable &From : M.globals()) {
    if (IsEarly(&From))
      continue;
    auto &To = *llvm::cast<llvm::GlobalVariable>(Map[&From]);
    To.setLinkage(From.getLinkage());
    To.setInitializer(llvm::MapValue(From.getInitializer(), Map));
    llvm::SmallVector<std::pair<unsigned, llvm::MDNode *>, 1> Nodes;
    From.getAllMetadata(Nodes);
    for (const auto &[Kind, Node] : Nodes)
      To.addMetadata(Kind, *llvm::MapMetadata(Node, Map));
    if (const llvm::Comdat *Group = From.getComdat()) {
      To.setComdat(Copy->getOrInsertComdat(Group->getName()));
      To.getComdat()->setSelectionKind(Group->getSelectionKind());
    }
  }
  return Copy;
#endif
}

inline std::unique_ptr<llvm::Module> cloneModule(const llvm::Module &M) {
  llvm::ValueToValueMapTy Map;
  return cloneModule(M, Map);
}

} // namespace mlbridge::versions

#endif
