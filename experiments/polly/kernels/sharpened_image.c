// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A blur along rows, one along columns, and the difference to the image.
#include "../kernel.h"

enum { ROWS = 1500, COLUMNS = 1600 };
float image[ROWS][COLUMNS], across[ROWS][COLUMNS], blurred[ROWS][COLUMNS], out[ROWS][COLUMNS];
ARRAYS(ARRAY(image, float), ARRAY(across, float), ARRAY(blurred, float), ARRAY(out, float));

void kernel(void) {
  for (int i = 0; i < ROWS; ++i)
    for (int j = 2; j < COLUMNS - 2; ++j)
      across[i][j] = 0.1f * (image[i][j - 2] + image[i][j + 2]) +
                     0.2f * (image[i][j - 1] + image[i][j + 1]) + 0.4f * image[i][j];
  for (int j = 2; j < COLUMNS - 2; ++j)
    for (int i = 2; i < ROWS - 2; ++i)
      blurred[i][j] = 0.1f * (across[i - 2][j] + across[i + 2][j]) +
                      0.2f * (across[i - 1][j] + across[i + 1][j]) + 0.4f * across[i][j];
  for (int i = 2; i < ROWS - 2; ++i)
    for (int j = 2; j < COLUMNS - 2; ++j)
      out[i][j] = 1.5f * image[i][j] - 0.5f * blurred[i][j];
}
