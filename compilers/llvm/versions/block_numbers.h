// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// LLVM 22 numbers the blocks of a function.
#ifndef MLBRIDGE_VERSIONS_BLOCK_NUMBERS_H
#define MLBRIDGE_VERSIONS_BLOCK_NUMBERS_H

#include "llvm/ADT/DenseMap.h"
#include "llvm/Config/llvm-config.h"
#include "llvm/IR/Function.h"

namespace mlbridge::versions {

#if LLVM_VERSION_MAJOR >= 22
class BlockNumbers {
public:
  explicit BlockNumbers(const llvm::Function &) {}
  unsigned operator[](const llvm::BasicBlock *Block) const { return Block->getNumber(); }
};
#else
class BlockNumbers {
public:
  explicit BlockNumbers(const llvm::Function &F) {
    for (const llvm::BasicBlock &Block : F)
      Numbers.try_emplace(&Block, Numbers.size());
  }
  unsigned operator[](const llvm::BasicBlock *Block) const { return Numbers.lookup(Block); }

private:
  llvm::DenseMap<const llvm::BasicBlock *, unsigned> Numbers;
};
#endif

} // namespace mlbridge::versions

#endif
