// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The lower half of C = beta C + alpha A A'.
#include "../kernel.h"

enum { N = 480, K = 400 };
double a[N][K], c[N][N];
ARRAYS(ARRAY(a, double), ARRAY(c, double));

void kernel(void) {
  for (int i = 0; i < N; ++i) {
    for (int j = 0; j <= i; ++j)
      c[i][j] *= 0.8;
    for (int k = 0; k < K; ++k)
      for (int j = 0; j <= i; ++j)
        c[i][j] += 1.1 * a[i][k] * a[j][k];
  }
}
