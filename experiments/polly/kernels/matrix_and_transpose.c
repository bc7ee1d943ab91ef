// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Both x += A y and z += A' w.
#include "../kernel.h"

enum { N = 2000 };
double a[N][N], x[N], y[N], z[N], w[N];
ARRAYS(ARRAY(a, double), ARRAY(x, double), ARRAY(y, double), ARRAY(z, double), ARRAY(w, double));

void kernel(void) {
  for (int i = 0; i < N; ++i)
    for (int j = 0; j < N; ++j)
      x[i] += a[i][j] * y[j];
  for (int i = 0; i < N; ++i)
    for (int j = 0; j < N; ++j)
      z[i] += a[j][i] * w[j];
}
