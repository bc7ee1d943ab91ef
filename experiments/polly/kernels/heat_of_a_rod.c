// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Heat in one dimension, over time.
#include "../kernel.h"

enum { STEPS = 400, N = 60000 };
double a[N], b[N];
ARRAYS(ARRAY(a, double), ARRAY(b, double));

void kernel(void) {
  for (int t = 0; t < STEPS; ++t) {
    for (int i = 1; i < N - 1; ++i)
      b[i] = 0.33333 * (a[i - 1] + a[i] + a[i + 1]);
    for (int i = 1; i < N - 1; ++i)
      a[i] = 0.33333 * (b[i - 1] + b[i] + b[i + 1]);
  }
}
