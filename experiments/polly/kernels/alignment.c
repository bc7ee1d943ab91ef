// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The best alignment of two sequences of numbers, over integers.
#include "../kernel.h"

enum { N = 3400, M = 3600 };
int score[N + 1][M + 1], first[N], second[M];
ARRAYS(ARRAY(score, int), ARRAY(first, int), ARRAY(second, int));

void kernel(void) {
  for (int i = 1; i <= N; ++i)
    for (int j = 1; j <= M; ++j) {
      const int alike = score[i - 1][j - 1] + (first[i - 1] - second[j - 1] > 30 ? -1 : 2);
      const int gap = score[i - 1][j] > score[i][j - 1] ? score[i - 1][j] : score[i][j - 1];
      score[i][j] = alike > gap - 1 ? alike : gap - 1;
    }
}
