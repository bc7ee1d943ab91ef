// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Machine instructions as vectors of floats. LLVM's own MIR2Vec fails on functions with registers
// of no class, such as $mxcsr.
#ifndef MLBRIDGE_LLVM_MIR_EMBEDDINGS_H
#define MLBRIDGE_LLVM_MIR_EMBEDDINGS_H

#include <mlbridge/status.h>

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/CodeGen/MachineFunction.h"

#include <memory>
#include <string>

namespace mlbridge::embeddings {

/// Seed vectors of opcodes and kinds of operands of x86-64 and AArch64. Copies share them; threads
/// may use one at once.
class MachineVocabulary {
public:
  /// Parses JSON text: {"Opcodes": {"ADD": [0.1, …], …}, "Operands": {"Immediate": [0.2, …], …}}.
  /// Names that it lacks are zero, kinds of operands that don't exist are left out. Errors:
  /// InvalidModel (no JSON, a section that is missing or has no name that can occur, vectors of
  /// different lengths, a number that is not finite).
  static Expected<MachineVocabulary> parse(llvm::StringRef Json);
  /// Parses a file of at most 64 MiB; NotFound if it cannot be read, LimitExceeded.
  static Expected<MachineVocabulary> read(const std::string &Path);
  /// The one that is built in: machine_vocabulary.json, read on the first call.
  static const Expected<MachineVocabulary> &builtin();

  size_t dimension() const; ///< 1 or more
  /// Identifies it: the SHA-256 of the text, 64 hexadecimal digits.
  const std::string &digest() const;

private:
  friend class MachineEmbedder;
  struct Seeds;
  explicit MachineVocabulary(std::shared_ptr<Seeds> Shared) : Shared(std::move(Shared)) {}
  std::shared_ptr<Seeds> Shared;
};

class MachineNames;

/// The vectors of a function's instructions: 1 × the opcode's + 1/2 × that of each register defined
/// + 1/4 × those of the other operands and of memory that is read or written. Used by one thread.
class MachineEmbedder {
public:
  MachineEmbedder(const MachineVocabulary &Words, const llvm::MachineFunction &MF);

  size_t dimension() const { return Words.dimension(); }
  /// Sums that no float holds become the largest one; no instruction gives zero. The order matters
  /// in the last bits only if a double does not hold the sums exactly, as it does those of a
  /// vocabulary with three digits. `Out` has dimension() values.
  void mean(llvm::ArrayRef<const llvm::MachineInstr *> Instructions,
            llvm::MutableArrayRef<float> Out) const;

private:
  const MachineVocabulary Words;
  const MachineNames &Names;
  llvm::ArrayRef<const float *> Opcodes; ///< null: unknown
};

} // namespace mlbridge::embeddings

#endif
