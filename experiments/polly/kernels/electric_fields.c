// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Two electric fields and a magnetic one, over time.
#include "../kernel.h"

enum { STEPS = 30, N = 640, M = 720 };
double ex[N][M], ey[N][M], hz[N][M];
ARRAYS(ARRAY(ex, double), ARRAY(ey, double), ARRAY(hz, double));

void kernel(void) {
  for (int t = 0; t < STEPS; ++t) {
    for (int j = 0; j < M; ++j)
      ey[0][j] = t * 0.01;
    for (int i = 1; i < N; ++i)
      for (int j = 0; j < M; ++j)
        ey[i][j] -= 0.5 * (hz[i][j] - hz[i - 1][j]);
    for (int i = 0; i < N; ++i)
      for (int j = 1; j < M; ++j)
        ex[i][j] -= 0.5 * (hz[i][j] - hz[i][j - 1]);
    for (int i = 0; i < N - 1; ++i)
      for (int j = 0; j < M - 1; ++j)
        hz[i][j] -= 0.7 * (ex[i][j + 1] - ex[i][j] + ey[i + 1][j] - ey[i][j]);
  }
}
