/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
   The four functions of BLAS that LIBLINEAR calls. */
#include <math.h>

double ddot_(int *n, double *x, int *stepX, double *y, int *stepY) {
  double sum = 0;
  for (int i = 0; i < *n; ++i)
    sum += x[i * *stepX] * y[i * *stepY];
  return sum;
}

double dnrm2_(int *n, double *x, int *step) { return sqrt(ddot_(n, x, step, x, step)); }

int daxpy_(int *n, double *factor, double *x, int *stepX, double *y, int *stepY) {
  for (int i = 0; i < *n; ++i)
    y[i * *stepY] += *factor * x[i * *stepX];
  return 0;
}

int dscal_(int *n, double *factor, double *x, int *step) {
  for (int i = 0; i < *n; ++i)
    x[i * *step] *= *factor;
  return 0;
}
