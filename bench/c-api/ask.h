/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#ifndef MLBRIDGE_BENCH_C_API_ASK_H
#define MLBRIDGE_BENCH_C_API_ASK_H

#include <mlbridge/c/mlbridge.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A query of each size, in floats; the sum of the answers, negative if one failed. */
double c_sweep(mlbridge_runner *runner, const float *data, const uint64_t *sizes, uint64_t count);

#ifdef __cplusplus
}
#endif

#endif
