// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Solves equations and fits curves: fit equations|derivatives|curve TIMES.
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cminpack.h"

enum { SIZE = 24, POINTS = 200, PARAMETERS = 6, WORK = 4000 };

// Broyden's tridiagonal equations.
static int equations(void *p, int n, const double *x, double *f, int flag) {
  (void)flag;
  for (int k = 0; k < n; ++k) {
    double before = k ? x[k - 1] : 0, after = k + 1 < n ? x[k + 1] : 0;
    f[k] = (3 - 2 * x[k]) * x[k] - before - 2 * after + *(double *)p;
  }
  return 0;
}

// Two bells on a slope.
static double curve(const double *x, double t) {
  double a = (t - x[1]) / 0.8, b = (t - x[3]) / 1.7;
  return x[0] * exp(-a * a) + x[2] * exp(-b * b) + x[4] + x[5] * t;
}

static int residuals(void *p, int m, int n, const double *x, double *f, int flag) {
  (void)n, (void)flag;
  for (int k = 0; k < m; ++k)
    f[k] = curve(x, 0.05 * k) - ((double *)p)[k];
  return 0;
}

static int with_derivatives(void *p, int m, int n, const double *x, double *f, double *j, int rows,
                            int flag) {
  if (flag == 1)
    return residuals(p, m, n, x, f, flag);
  for (int k = 0; k < m; ++k) {
    double t = 0.05 * k, a = (t - x[1]) / 0.8, b = (t - x[3]) / 1.7, first = exp(-a * a),
           second = exp(-b * b);
    double row[PARAMETERS] = {
        first, x[0] * first * 2 * a / 0.8, second, x[2] * second * 2 * b / 1.7, 1, t};
    for (int c = 0; c < n; ++c)
      j[k + c * rows] = row[c];
  }
  return 0;
}

int main(int argc, char **argv) {
  if (argc != 3)
    return 2;
  static double f[POINTS], measured[POINTS], jacobian[POINTS * PARAMETERS], work[WORK];
  double first = 0, last = 0, norm = 0, x[SIZE];
  int pivots[PARAMETERS], steps[PARAMETERS], codes = 0;
  const double truth[PARAMETERS] = {3, 2.5, 1.5, 6, 0.5, 0.1},
               guess[PARAMETERS] = {2.7, 2.3, 1.5, 5.1, 0.7, 0.4};
  for (int n = atoi(argv[2]); n > 0; --n) {
    if (strcmp(argv[1], "equations") == 0) {
      double one = 1 + n * 0.001;
      for (int k = 0; k < SIZE; ++k)
        x[k] = -1;
      codes += hybrd1(equations, &one, SIZE, x, f, 1e-10, work, WORK);
      norm += enorm(SIZE, f);
    } else {
      for (int k = 0; k < POINTS; ++k)
        measured[k] = curve(truth, 0.05 * k + 1e-6 * n) + 0.05 * sin(k * (7.1 + n));
      for (int k = 0; k < PARAMETERS; ++k)
        x[k] = guess[k];
      if (strcmp(argv[1], "curve") == 0) {
        codes += lmdif1(residuals, measured, POINTS, PARAMETERS, x, f, 1e-10, steps, work, WORK);
      } else {
        codes += lmder1(with_derivatives, measured, POINTS, PARAMETERS, x, f, jacobian, POINTS,
                        1e-10, pivots, work, WORK);
        covar(PARAMETERS, jacobian, POINTS, pivots, 1e-12, work);
      }
      norm += enorm(POINTS, f);
    }
    first += x[0];
    last += x[3];
  }
  printf("%d: %.5e %.5e %.5e\n", codes, first, last, strcmp(argv[1], "equations") ? norm : 0.0);
  return 0;
}
