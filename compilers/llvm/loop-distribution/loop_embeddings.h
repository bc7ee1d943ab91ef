// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Parts of a loop as vectors: each is the sum of its instructions, by IR2Vec, symbolic.
#ifndef MLBRIDGE_LOOP_DISTRIBUTION_LOOP_EMBEDDINGS_H
#define MLBRIDGE_LOOP_DISTRIBUTION_LOOP_EMBEDDINGS_H

#include "embeddings.h"
#include "graph.h"

namespace mlbridge::distribution {

class LoopEmbeddings {
public:
  LoopEmbeddings(const LoopGraph &Of, const embeddings::Vocabulary &Words)
      : Dimension(Words.dimension()), Vectors(Words.embed(Of.instructions())) {}

  size_t dimension() const { return Dimension; }
  /// Of these instructions of the loop. `Out` has dimension() values.
  void sum(const llvm::BitVector &Of, float *Out) const;

private:
  const size_t Dimension;
  const std::vector<double> Vectors; ///< of each instruction, in their order
};

} // namespace mlbridge::distribution

#endif
