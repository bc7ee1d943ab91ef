// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// B = A' B, with ones on the diagonal of a lower triangle.
#include "../kernel.h"

enum { N = 420, M = 450 };
double a[N][N], b[N][M];
ARRAYS(ARRAY(a, double), ARRAY(b, double));

void kernel(void) {
  for (int i = 0; i < N; ++i)
    for (int j = 0; j < M; ++j) {
      for (int k = i + 1; k < N; ++k)
        b[i][j] += a[k][i] * b[k][j];
      b[i][j] *= 0.01;
    }
}
