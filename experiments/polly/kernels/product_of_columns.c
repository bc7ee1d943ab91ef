// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A product whose loops are in the order that memory likes least, in single precision.
#include "../kernel.h"

enum { N = 380 };
float a[N][N], b[N][N], c[N][N];
ARRAYS(ARRAY(a, float), ARRAY(b, float), ARRAY(c, float));

void kernel(void) {
  for (int j = 0; j < N; ++j)
    for (int k = 0; k < N; ++k)
      for (int i = 0; i < N; ++i)
        c[i][j] += a[i][k] * b[k][j];
}
