// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Along columns, then along rows, forth and back.
#include "../kernel.h"

enum { N = 1300 };
double u[N][N], v[N][N], w[N][N];
ARRAYS(ARRAY(u, double), ARRAY(v, double), ARRAY(w, double));

void kernel(void) {
  for (int i = 0; i < N; ++i) {
    for (int j = 1; j < N; ++j)
      v[j][i] = (u[j][i] + 0.4 * v[j - 1][i]) * 0.6;
    for (int j = N - 2; j >= 0; --j)
      v[j][i] += 0.3 * v[j + 1][i];
  }
  for (int i = 0; i < N; ++i) {
    for (int j = 1; j < N; ++j)
      w[i][j] = (v[i][j] + 0.4 * w[i][j - 1]) * 0.6;
    for (int j = N - 2; j >= 0; --j)
      u[i][j] = w[i][j] + 0.3 * w[i][j + 1];
  }
}
