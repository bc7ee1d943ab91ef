// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "c/handles.h"

#include <mlbridge/c/sampler.h>
#include <mlbridge/sampler.h>

using namespace mlbridge;
using namespace mlbridge::c;

struct mlbridge_sampler {
  Sampler sampler;
};

// Calls `choose` with the logits as what they are.
template <typename F>
static mlbridge_code chosen(mlbridge_type type, const void *logits, uint64_t count, int64_t *index,
                            const F &choose) {
  if (!index || (count && !logits))
    return MLBRIDGE_INVALID_ARGUMENT;
  Expected<int64_t> choice =
      Status(Code::InvalidArgument, "logits must be float16, float32 or float64");
  if (type == MLBRIDGE_FLOAT32)
    choice = choose(Span(static_cast<const float *>(logits), count));
  else if (type == MLBRIDGE_FLOAT64)
    choice = choose(Span(static_cast<const double *>(logits), count));
  else if (type == MLBRIDGE_FLOAT16)
    choice = choose(Span(static_cast<const Half *>(logits), count));
  if (choice)
    *index = *choice;
  return codeOf(choice.status());
}

extern "C" {

mlbridge_code mlbridge_arg_max(mlbridge_type type, const void *logits, uint64_t count,
                               int64_t *index) {
  return chosen(type, logits, count, index, [](auto span) { return argMax(span); });
}

mlbridge_sampler *mlbridge_sampler_create(uint64_t seed, double temperature) {
  return new mlbridge_sampler{Sampler(seed, temperature)};
}

void mlbridge_sampler_destroy(mlbridge_sampler *sampler) { delete sampler; }

void mlbridge_sampler_restart(mlbridge_sampler *sampler, const char *episode, const char *unit) {
  if (sampler)
    sampler->sampler.restart(textOf(episode), textOf(unit));
}

mlbridge_code mlbridge_sampler_sample(mlbridge_sampler *sampler, mlbridge_type type,
                                      const void *logits, uint64_t count, int64_t *index) {
  if (!sampler)
    return MLBRIDGE_INVALID_ARGUMENT;
  return chosen(type, logits, count, index,
                [sampler](auto span) { return sampler->sampler.sample(span); });
}

} // extern "C"
