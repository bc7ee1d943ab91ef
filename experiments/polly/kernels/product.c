// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// C = beta C + alpha A B, row by row.
#include "../kernel.h"

enum { N = 420, M = 460, K = 500 };
double a[N][K], b[K][M], c[N][M];
ARRAYS(ARRAY(a, double), ARRAY(b, double), ARRAY(c, double));

void kernel(void) {
  for (int i = 0; i < N; ++i) {
    for (int j = 0; j < M; ++j)
      c[i][j] *= 0.3;
    for (int k = 0; k < K; ++k)
      for (int j = 0; j < M; ++j)
        c[i][j] += 0.7 * a[i][k] * b[k][j];
  }
}
