// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Chooses an action from a network's logits. URIs do the same with `?choose=argmax` and
// `?choose=sample`, so that a pass need not know.
#ifndef MLBRIDGE_SAMPLER_H
#define MLBRIDGE_SAMPLER_H

#include <mlbridge/status.h>
#include <mlbridge/tensor.h>

#include <cstdint>
#include <string_view>

namespace mlbridge {

/// The index of the largest element, the first one if several are equal. An element of -inf is
/// never chosen (masks are added as log(0)). Errors: PolicyFailed (no elements, one is NaN, all are
/// -inf).
Expected<int64_t> argMax(Span<const float> logits);
Expected<int64_t> argMax(Span<const double> logits);
Expected<int64_t> argMax(Span<const Half> logits);

/// Draws from softmax(logits / temperature). The same seed gives the same draws on every machine.
/// Used by one thread at a time.
class Sampler {
public:
  /// temperature: above 0; near 0 sampling becomes argMax.
  explicit Sampler(uint64_t seed = 0, double temperature = 1);
  /// Starts anew from the seed, and from what is being compiled if it is given: the draws for a
  /// module then depend neither on other modules nor on the order of threads.
  void restart(std::string_view episode = {}, std::string_view unit = {});
  /// Allocates nothing. Errors: those of argMax.
  Expected<int64_t> sample(Span<const float> logits);
  Expected<int64_t> sample(Span<const double> logits);
  Expected<int64_t> sample(Span<const Half> logits);

private:
  uint64_t seed_;
  double inverseTemperature_;
  uint64_t state_ = 0;
};

} // namespace mlbridge

#endif
