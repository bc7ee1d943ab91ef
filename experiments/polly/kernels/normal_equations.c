// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// y = A' (A x).
#include "../kernel.h"

enum { ROWS = 3600, COLUMNS = 3400 };
double a[ROWS][COLUMNS], x[COLUMNS], y[COLUMNS], ax[ROWS];
ARRAYS(ARRAY(a, double), ARRAY(x, double), ARRAY(y, double), ARRAY(ax, double));

void kernel(void) {
  for (int j = 0; j < COLUMNS; ++j)
    y[j] = 0;
  for (int i = 0; i < ROWS; ++i) {
    ax[i] = 0;
    for (int j = 0; j < COLUMNS; ++j)
      ax[i] += a[i][j] * x[j];
    for (int j = 0; j < COLUMNS; ++j)
      y[j] += a[i][j] * ax[i];
  }
}
