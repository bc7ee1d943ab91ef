// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "server/stream.h"

namespace mlbridge {

uint64_t costOf(const Signature &signature) {
  constexpr uint64_t CostOfStream = 2048, CostOfTensor = 512;
  uint64_t cost = CostOfStream;
  for (const std::vector<TensorSpec> *side : {&signature.inputs, &signature.outputs})
    for (const TensorSpec &spec : *side)
      cost += CostOfTensor + spec.name.size() + 6 * sizeof(int64_t) * spec.shape.size();
  return cost;
}

uint64_t InputStorage::bytes() const {
  uint64_t sum = sizeof *this + CostOfEvent + message.capacity();
  for (const uint64_t bytes : decoded)
    sum += bytes;
  for (const std::shared_ptr<ArenaView> &part : mapped)
    sum += part->capacity();
  return sum;
}

TensorView viewInMessage(const TensorSpec &spec, const Codec &codec, size_t index,
                         uint8_t *payload) {
  return {spec.type, payload + codec.layout()->offsets[index], *spec.count(), spec.shape};
}

} // namespace mlbridge
