/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
 * The C interface: chooses an action from a network's logits. URIs do the same with
 * `?choose=argmax` and `?choose=sample`, so that a pass need not know. */
#ifndef MLBRIDGE_C_SAMPLER_H
#define MLBRIDGE_C_SAMPLER_H

#include <mlbridge/c/tensor.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The index of the largest of `count` elements of MLBRIDGE_FLOAT16, _FLOAT32 or _FLOAT64, the first
 * of equals; -inf is never chosen. Errors: MLBRIDGE_POLICY_FAILED (no elements, one is NaN, all are
 * -inf), MLBRIDGE_INVALID_ARGUMENT (another type, a null pointer). */
mlbridge_code mlbridge_arg_max(mlbridge_type type, const void *logits, uint64_t count,
                               int64_t *index);

/* Draws from softmax(logits / temperature); the same seed gives the same draws on every machine.
 * Used by one thread at a time. */
typedef struct mlbridge_sampler mlbridge_sampler;

/* `temperature`: above 0; near 0 sampling becomes mlbridge_arg_max. */
mlbridge_sampler *mlbridge_sampler_create(uint64_t seed, double temperature);
void mlbridge_sampler_destroy(mlbridge_sampler *sampler); /* once */
/* Restarts from the seed and from what is being compiled; each string may be null. */
void mlbridge_sampler_restart(mlbridge_sampler *sampler, const char *episode, const char *unit);
/* Draws one; allocates nothing. Errors: those of mlbridge_arg_max. */
mlbridge_code mlbridge_sampler_sample(mlbridge_sampler *sampler, mlbridge_type type,
                                      const void *logits, uint64_t count, int64_t *index);

#ifdef __cplusplus
}
#endif

#endif
