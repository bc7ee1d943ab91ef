// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The parts of a machine instruction, in words that x86-64 and AArch64 share.
#ifndef MLBRIDGE_LLVM_MIR_NAMES_H
#define MLBRIDGE_LLVM_MIR_NAMES_H

#include "llvm/ADT/STLFunctionalExtras.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/CodeGen/MachineFunction.h"

#include <cstdint>
#include <string>
#include <vector>

namespace mlbridge::embeddings {

/// The relation of an instruction to one of its parts.
enum class MachineRelation : uint8_t {
  Defines,  ///< a register that it writes
  Uses,     ///< any other operand
  Accesses, ///< memory: Load or Store
};

class MachineNames {
public:
  /// The names of the function's target; made once in a process. Thread-safe.
  static const MachineNames &of(const llvm::MachineFunction &MF);

  /// The name of an opcode without what the operands say: ADD for ADD32rr and for ADDXri.
  static std::string opcode(const llvm::MachineFunction &MF, unsigned Opcode);

  /// Kinds of operands are numbers below `kinds()`.
  static unsigned kinds();
  static llvm::StringRef kind(unsigned Number);

  /// Calls `Visit` with each part of the instruction and its kind, in order. `$noreg` is none.
  void visit(const llvm::MachineInstr &MI,
             llvm::function_ref<void(MachineRelation, unsigned)> Visit) const;

private:
  explicit MachineNames(const llvm::TargetRegisterInfo &Target);
  unsigned kindOf(const llvm::MachineOperand &Operand,
                  const llvm::MachineRegisterInfo &Registers) const;

  std::vector<uint8_t> Classes; ///< kind of a virtual register, by its class
  std::vector<uint8_t> Fixed;   ///< kind of a physical register
};

} // namespace mlbridge::embeddings

#endif
