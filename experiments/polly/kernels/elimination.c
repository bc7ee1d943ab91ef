// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Gaussian elimination without pivots: L and U in place of A.
#include "../kernel.h"

enum { N = 520 };
double a[N][N];
ARRAYS(ARRAY(a, double));

void kernel(void) {
  for (int i = 0; i < N; ++i)
    a[i][i] += N;
  for (int k = 0; k < N; ++k) {
    for (int i = k + 1; i < N; ++i)
      a[i][k] /= a[k][k];
    for (int i = k + 1; i < N; ++i)
      for (int j = k + 1; j < N; ++j)
        a[i][j] -= a[i][k] * a[k][j];
  }
}
