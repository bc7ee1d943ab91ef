// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// D = (A B) C, of matrices whose sizes are arguments.
#include "../kernel.h"

enum { N = 300, M = 340, K = 260, L = 320 };
double a[N][K], b[K][M], c[M][L], ab[N][M], d[N][L];
ARRAYS(ARRAY(a, double), ARRAY(b, double), ARRAY(c, double), ARRAY(ab, double), ARRAY(d, double));
UNKNOWN(of_n, N);
UNKNOWN(of_m, M);
UNKNOWN(of_k, K);
UNKNOWN(of_l, L);

PART chain(int n, int m, int k, int l, double A[restrict n][k], double B[restrict k][m],
           double C[restrict m][l], double AB[restrict n][m], double D[restrict n][l]) {
  for (int i = 0; i < n; ++i)
    for (int j = 0; j < m; ++j) {
      AB[i][j] = 0;
      for (int p = 0; p < k; ++p)
        AB[i][j] += A[i][p] * B[p][j];
    }
  for (int i = 0; i < n; ++i)
    for (int j = 0; j < l; ++j) {
      D[i][j] = 0;
      for (int p = 0; p < m; ++p)
        D[i][j] += AB[i][p] * C[p][j];
    }
}

void kernel(void) { chain(of_n, of_m, of_k, of_l, a, b, c, ab, d); }
