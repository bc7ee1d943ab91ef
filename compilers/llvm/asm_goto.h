// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef MLBRIDGE_LLVM_ASM_GOTO_H
#define MLBRIDGE_LLVM_ASM_GOTO_H

#include "llvm/ADT/STLExtras.h"
#include "llvm/CodeGen/MachineFunction.h"

namespace mlbridge {

/// Whether an `asm goto` gives values. LLVM stores one that it spills for what follows the asm
/// only, not for the labels that it jumps to; so what decides who is spilled must not touch it.
inline bool hasAsmGotoOutputs(const llvm::MachineFunction &MF) {
  const auto Gives = [](const llvm::MachineInstr &Next) {
    return Next.getOpcode() == llvm::TargetOpcode::INLINEASM_BR &&
           llvm::any_of(Next.operands(), [](const llvm::MachineOperand &Its) {
             return Its.isReg() && Its.isDef() && Its.getReg().isVirtual();
           });
  };
  return llvm::any_of(MF, [&](const llvm::MachineBasicBlock &Block) {
    return Block.mayHaveInlineAsmBr() && llvm::any_of(Block, Gives);
  });
}

} // namespace mlbridge

#endif
