// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Many products of small matrices.
#include "../kernel.h"

enum { COUNT = 4000, N = 30 };
double a[COUNT][N][N], b[COUNT][N][N], c[COUNT][N][N];
ARRAYS(ARRAY(a, double), ARRAY(b, double), ARRAY(c, double));

void kernel(void) {
  for (int e = 0; e < COUNT; ++e)
    for (int i = 0; i < N; ++i)
      for (int j = 0; j < N; ++j) {
        double sum = 0;
        for (int k = 0; k < N; ++k)
          sum += a[e][i][k] * b[e][k][j];
        c[e][i][j] = sum;
      }
}
