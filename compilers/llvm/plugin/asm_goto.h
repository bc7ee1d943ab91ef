// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef MLBRIDGE_LLVM_PLUGIN_ASM_GOTO_H
#define MLBRIDGE_LLVM_PLUGIN_ASM_GOTO_H

#include "llvm/ADT/STLExtras.h"
#include "llvm/CodeGen/MachineFunction.h"

namespace mlbridge::plugin {

/// True if an `asm goto` gives values. LLVM stores one that it spills for what follows the asm
/// only, not for the labels that it jumps to; so no model may decide which live ranges are spilled
/// then.
inline bool hasAsmGotoOutputs(const llvm::MachineFunction &MF) {
  const auto GivesValues = [](const llvm::MachineInstr &Instruction) {
    return Instruction.getOpcode() == llvm::TargetOpcode::INLINEASM_BR &&
           llvm::any_of(Instruction.operands(), [](const llvm::MachineOperand &Operand) {
             return Operand.isReg() && Operand.isDef() && Operand.getReg().isVirtual();
           });
  };
  return llvm::any_of(MF, [&](const llvm::MachineBasicBlock &Block) {
    return Block.mayHaveInlineAsmBr() && llvm::any_of(Block, GivesValues);
  });
}

} // namespace mlbridge::plugin

#endif
