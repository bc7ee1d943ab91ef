// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Over each of three directions.
#include "../kernel.h"

enum { N = 220 };
double volume[N][N][N], x[N][N], y[N][N], z[N][N];
ARRAYS(ARRAY(volume, double), ARRAY(x, double), ARRAY(y, double), ARRAY(z, double));

void kernel(void) {
  for (int i = 0; i < N; ++i)
    for (int j = 0; j < N; ++j)
      for (int k = 0; k < N; ++k) {
        x[j][k] += volume[i][j][k];
        y[i][k] += volume[i][j][k];
        z[i][j] += volume[i][j][k];
      }
}
