// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Columns that are orthogonal, one after the other.
#include "../kernel.h"

#include <math.h>

enum { ROWS = 340, COLUMNS = 300 };
double a[ROWS][COLUMNS], q[ROWS][COLUMNS], r[COLUMNS][COLUMNS];
ARRAYS(ARRAY(a, double), ARRAY(q, double), ARRAY(r, double));

void kernel(void) {
  for (int k = 0; k < COLUMNS; ++k) {
    double norm = 0;
    for (int i = 0; i < ROWS; ++i)
      norm += a[i][k] * a[i][k];
    r[k][k] = sqrt(norm) + 1e-3;
    for (int i = 0; i < ROWS; ++i)
      q[i][k] = a[i][k] / r[k][k];
    for (int j = k + 1; j < COLUMNS; ++j) {
      r[k][j] = 0;
      for (int i = 0; i < ROWS; ++i)
        r[k][j] += q[i][k] * a[i][j];
      for (int i = 0; i < ROWS; ++i)
        a[i][j] -= q[i][k] * r[k][j];
    }
  }
}
