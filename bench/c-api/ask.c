/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
 *
 * The half of the benchmark that is C: the same queries as in client.cpp.
 */
#include "ask.h"

double c_sweep(mlbridge_runner *runner, const float *data, const uint64_t *sizes, uint64_t count) {
  double total = 0;
  for (uint64_t i = 0; i < count; ++i) {
    float answer = 0;
    if (mlbridge_set(runner, "x", data, sizes[i]) != MLBRIDGE_OK ||
        mlbridge_evaluate_float(runner, &answer) != MLBRIDGE_OK)
      return -1;
    total += answer;
  }
  return total;
}
