// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Heat in two dimensions, over time.
#include "../kernel.h"

enum { STEPS = 30, N = 900 };
double a[N][N], b[N][N];
ARRAYS(ARRAY(a, double), ARRAY(b, double));

void kernel(void) {
  for (int t = 0; t < STEPS; ++t) {
    for (int i = 1; i < N - 1; ++i)
      for (int j = 1; j < N - 1; ++j)
        b[i][j] = 0.2 * (a[i][j] + a[i][j - 1] + a[i][j + 1] + a[i + 1][j] + a[i - 1][j]);
    for (int i = 1; i < N - 1; ++i)
      for (int j = 1; j < N - 1; ++j)
        a[i][j] = 0.2 * (b[i][j] + b[i][j - 1] + b[i][j + 1] + b[i + 1][j] + b[i - 1][j]);
  }
}
