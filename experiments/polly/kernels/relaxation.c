// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A plate in place: each point is the mean of nine, of which four are already new.
#include "../kernel.h"

enum { STEPS = 8, N = 700 };
double a[N][N];
ARRAYS(ARRAY(a, double));

void kernel(void) {
  for (int t = 0; t < STEPS; ++t)
    for (int i = 1; i < N - 1; ++i)
      for (int j = 1; j < N - 1; ++j)
        a[i][j] = (a[i - 1][j - 1] + a[i - 1][j] + a[i - 1][j + 1] + a[i][j - 1] + a[i][j] +
                   a[i][j + 1] + a[i + 1][j - 1] + a[i + 1][j] + a[i + 1][j + 1]) /
                  9;
}
