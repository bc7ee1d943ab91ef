// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "loop_embeddings.h"

#include <algorithm>

using namespace llvm;

namespace mlbridge::distribution {

void LoopEmbeddings::sum(const BitVector &Of, float *Out) const {
  std::vector<double> Sum(Dimension);
  for (const unsigned I : Of.set_bits())
    for (size_t Column = 0; Column < Dimension; ++Column)
      Sum[Column] += Vectors[I * Dimension + Column];
  std::transform(Sum.begin(), Sum.end(), Out, embeddings::asFloat);
}

} // namespace mlbridge::distribution
