// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The lower half of C += A B' + B A'.
#include "../kernel.h"

enum { N = 420, K = 380 };
float a[N][K], b[N][K], c[N][N];
ARRAYS(ARRAY(a, float), ARRAY(b, float), ARRAY(c, float));

void kernel(void) {
  for (int i = 0; i < N; ++i)
    for (int j = 0; j <= i; ++j)
      for (int k = 0; k < K; ++k)
        c[i][j] += a[j][k] * b[i][k] + b[j][k] * a[i][k];
}
