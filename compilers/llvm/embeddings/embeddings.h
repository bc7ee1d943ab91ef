// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A module as one vector of floats, by LLVM's own IR2Vec.
#ifndef MLBRIDGE_LLVM_EMBEDDINGS_H
#define MLBRIDGE_LLVM_EMBEDDINGS_H

#include <mlbridge/status.h>

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/IR/Module.h"

#include <memory>
#include <string>
#include <vector>

namespace llvm::ir2vec {
class Vocabulary;
} // namespace llvm::ir2vec

namespace mlbridge::embeddings {

enum class Kind {
  Symbolic,  ///< an instruction is its opcode, type and operands
  FlowAware, ///< an operand is the whole vector of the instruction that computes it
};

/// Seed vectors of opcodes, types and operands. Copies share them; threads may use one at once.
class Vocabulary {
public:
  /// Parses JSON text as LLVM reads it: {"Opcodes": {"Add": [0.1, …], …}, "Types": …, "Arguments":
  /// …}. Names that it lacks are zero, names that LLVM does not know are left out. Errors:
  /// InvalidModel (no JSON, a section that is missing or has no name that LLVM knows, vectors of
  /// different lengths, a number that is not finite), Unsupported (this LLVM has no IR2Vec).
  static Expected<Vocabulary> parse(llvm::StringRef Json);
  /// Parses a file of at most 64 MiB; NotFound if it cannot be read, LimitExceeded.
  static Expected<Vocabulary> read(const std::string &Path);
  /// The one that is built in: vocabulary.json, read on the first call.
  static const Expected<Vocabulary> &builtin();

  size_t dimension() const; ///< 1 or more
  /// Identifies it: the SHA-256 of the text, 64 hexadecimal digits.
  const std::string &digest() const { return Digest; }

  /// The module's vector: the sum of its functions', in their order, each of which is the sum over
  /// the instructions that can be reached, as LLVM's FunctionVector. Zero without a function. Sums
  /// that no float holds become the largest one, and NaN becomes 0. Depends on nothing but the IR,
  /// without debug instructions. `Out` has dimension() values.
  void embed(const llvm::Module &M, Kind Sort, llvm::MutableArrayRef<float> Out) const;

  /// The symbolic vectors of instructions of one function, as doubles: for each dimension()
  /// numbers.
  std::vector<double> embed(llvm::ArrayRef<llvm::Instruction *> Instructions) const;

private:
  Vocabulary() = default;
  std::shared_ptr<const llvm::ir2vec::Vocabulary> Seeds;
  std::string Digest;
};

} // namespace mlbridge::embeddings

#endif
