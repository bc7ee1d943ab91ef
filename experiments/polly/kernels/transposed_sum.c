// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// C = A + B'.
#include "../kernel.h"

enum { N = 2400 };
double a[N][N], b[N][N], c[N][N];
ARRAYS(ARRAY(a, double), ARRAY(b, double), ARRAY(c, double));

void kernel(void) {
  for (int i = 0; i < N; ++i)
    for (int j = 0; j < N; ++j)
      c[i][j] = a[i][j] + b[j][i];
}
