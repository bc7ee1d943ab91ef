// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Heat in three dimensions, over time.
#include "../kernel.h"

enum { STEPS = 16, N = 110 };
float a[N][N][N], b[N][N][N];
ARRAYS(ARRAY(a, float), ARRAY(b, float));

#define NEXT(A)                                                                                    \
  (0.125f * (A[i + 1][j][k] - 2 * A[i][j][k] + A[i - 1][j][k]) +                                   \
   0.125f * (A[i][j + 1][k] - 2 * A[i][j][k] + A[i][j - 1][k]) +                                   \
   0.125f * (A[i][j][k + 1] - 2 * A[i][j][k] + A[i][j][k - 1]) + A[i][j][k])

void kernel(void) {
  for (int t = 0; t < STEPS; ++t) {
    for (int i = 1; i < N - 1; ++i)
      for (int j = 1; j < N - 1; ++j)
        for (int k = 1; k < N - 1; ++k)
          b[i][j][k] = NEXT(a);
    for (int i = 1; i < N - 1; ++i)
      for (int j = 1; j < N - 1; ++j)
        for (int k = 1; k < N - 1; ++k)
          a[i][j][k] = NEXT(b);
  }
}
