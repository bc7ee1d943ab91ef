// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Of the columns of a table: means, what differs from them, and its products.
#include "../kernel.h"

enum { ROWS = 420, COLUMNS = 360 };
double table[ROWS][COLUMNS], means[COLUMNS], products[COLUMNS][COLUMNS];
ARRAYS(ARRAY(table, double), ARRAY(means, double), ARRAY(products, double));

void kernel(void) {
  for (int j = 0; j < COLUMNS; ++j) {
    means[j] = 0;
    for (int i = 0; i < ROWS; ++i)
      means[j] += table[i][j];
    means[j] /= ROWS;
  }
  for (int i = 0; i < ROWS; ++i)
    for (int j = 0; j < COLUMNS; ++j)
      table[i][j] -= means[j];
  for (int i = 0; i < COLUMNS; ++i)
    for (int j = i; j < COLUMNS; ++j) {
      products[i][j] = 0;
      for (int k = 0; k < ROWS; ++k)
        products[i][j] += table[k][i] * table[k][j];
      products[i][j] /= ROWS - 1;
      products[j][i] = products[i][j];
    }
}
