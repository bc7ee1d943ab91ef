// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Each row of a tensor by a matrix, in place.
#include "../kernel.h"

enum { R = 70, Q = 80, P = 90 };
double t[R][Q][P], m[P][P], row[P];
ARRAYS(ARRAY(t, double), ARRAY(m, double), ARRAY(row, double));

void kernel(void) {
  for (int r = 0; r < R; ++r)
    for (int q = 0; q < Q; ++q) {
      for (int p = 0; p < P; ++p) {
        row[p] = 0;
        for (int s = 0; s < P; ++s)
          row[p] += t[r][q][s] * m[s][p];
      }
      for (int p = 0; p < P; ++p)
        t[r][q][p] = row[p];
    }
}
