// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The neighbours of opcodes in machine code, for training a vocabulary.
#ifndef MLBRIDGE_LLVM_MIR_TRIPLETS_H
#define MLBRIDGE_LLVM_MIR_TRIPLETS_H

#include "llvm/CodeGen/MachineFunction.h"
#include "llvm/Support/raw_ostream.h"

#include <array>
#include <cstdint>
#include <map>
#include <string>

namespace mlbridge::embeddings {

class MachineTriplets {
public:
  void add(const llvm::MachineFunction &MF);
  /// Writes a line for each distinct triplet: how often it occurs, the opcode, the relation (Next,
  /// Defines, Uses, Accesses) and an opcode or a kind of operand, with tabs between them. Sorted.
  void write(llvm::raw_ostream &To) const;

private:
  std::map<std::array<std::string, 3>, uint64_t> Counts; ///< opcode, relation, other
};

} // namespace mlbridge::embeddings

#endif
