// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A = L L'; the diagonal is raised, so that there is a root.
#include "../kernel.h"

#include <math.h>

enum { N = 560 };
double a[N][N];
ARRAYS(ARRAY(a, double));

void kernel(void) {
  for (int i = 0; i < N; ++i)
    a[i][i] += 2 * N;
  for (int i = 0; i < N; ++i) {
    for (int j = 0; j < i; ++j) {
      for (int k = 0; k < j; ++k)
        a[i][j] -= a[i][k] * a[j][k];
      a[i][j] /= a[j][j];
    }
    for (int k = 0; k < i; ++k)
      a[i][i] -= a[i][k] * a[i][k];
    a[i][i] = sqrt(a[i][i]);
  }
}
