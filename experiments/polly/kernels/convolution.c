// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Of an image with a window of seven by seven.
#include "../kernel.h"

enum { ROWS = 2200, COLUMNS = 2700, W = 7 };
float image[ROWS + W][COLUMNS + W], window[W][W], out[ROWS][COLUMNS];
ARRAYS(ARRAY(image, float), ARRAY(window, float), ARRAY(out, float));

void kernel(void) {
  for (int i = 0; i < ROWS; ++i)
    for (int j = 0; j < COLUMNS; ++j) {
      float sum = 0;
      for (int p = 0; p < W; ++p)
        for (int q = 0; q < W; ++q)
          sum += image[i + p][j + q] * window[p][q];
      out[i][j] = sum;
    }
}
