// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// L X = B of several right-hand sides, whose number is an argument.
#include "../kernel.h"

enum { N = 700, M = 600 };
double l[N][N], b[N][M];
ARRAYS(ARRAY(l, double), ARRAY(b, double));
UNKNOWN(of_n, N);
UNKNOWN(of_m, M);

PART solve(int n, int m, double L[restrict n][n], double X[restrict n][m]) {
  for (int i = 0; i < n; ++i) {
    for (int k = 0; k < i; ++k)
      for (int j = 0; j < m; ++j)
        X[i][j] -= L[i][k] * X[k][j] * 0.01;
    for (int j = 0; j < m; ++j)
      X[i][j] /= L[i][i];
  }
}

void kernel(void) { solve(of_n, of_m, l, b); }
