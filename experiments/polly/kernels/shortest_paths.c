// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Between all pairs of nodes, over integers.
#include "../kernel.h"

enum { N = 380 };
int length[N][N];
ARRAYS(ARRAY(length, int));

void kernel(void) {
  for (int k = 0; k < N; ++k)
    for (int i = 0; i < N; ++i)
      for (int j = 0; j < N; ++j)
        length[i][j] =
            length[i][j] < length[i][k] + length[k][j] ? length[i][j] : length[i][k] + length[k][j];
}
