// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A gets two outer products, then two products with vectors.
#include "../kernel.h"

enum { N = 1800 };
double a[N][N], u[2][N], v[2][N], x[N], y[N], z[N], w[N];
ARRAYS(ARRAY(a, double), ARRAY(u, double), ARRAY(v, double), ARRAY(x, double), ARRAY(y, double),
       ARRAY(z, double), ARRAY(w, double));

void kernel(void) {
  for (int i = 0; i < N; ++i)
    for (int j = 0; j < N; ++j)
      a[i][j] += u[0][i] * v[0][j] + u[1][i] * v[1][j];
  for (int i = 0; i < N; ++i)
    for (int j = 0; j < N; ++j)
      x[i] += 0.4 * a[j][i] * y[j];
  for (int i = 0; i < N; ++i)
    x[i] += z[i];
  for (int i = 0; i < N; ++i)
    for (int j = 0; j < N; ++j)
      w[i] += 1.2 * a[i][j] * x[j];
}
