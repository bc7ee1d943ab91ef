// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Minimizes functions: fit valley|sparse|logistic SIZE.
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lbfgs.h"

enum { FEATURES = 40 };

// Rosenbrock's valley in many dimensions.
static lbfgsfloatval_t valley(void *unused, const lbfgsfloatval_t *x, lbfgsfloatval_t *g,
                              const int n, const lbfgsfloatval_t step) {
  (void)unused, (void)step;
  lbfgsfloatval_t value = 0;
  for (int i = 0; i + 1 < n; i += 2) {
    lbfgsfloatval_t a = 1 - x[i], b = 10 * (x[i + 1] - x[i] * x[i]);
    g[i + 1] = 20 * b;
    g[i] = -2 * (x[i] * g[i + 1] + a);
    value += a * a + b * b;
  }
  return value;
}

// Logistic regression on rows that are made by rule.
static lbfgsfloatval_t logistic(void *rows, const lbfgsfloatval_t *x, lbfgsfloatval_t *g,
                                const int n, const lbfgsfloatval_t step) {
  (void)step;
  lbfgsfloatval_t value = 0;
  for (int k = 0; k < n; ++k) {
    value += 0.01 * x[k] * x[k];
    g[k] = 0.02 * x[k];
  }
  for (int r = 0; r < *(int *)rows; ++r) {
    lbfgsfloatval_t sum = 0, feature[FEATURES];
    for (int k = 0; k < n; ++k)
      sum += x[k] * (feature[k] = (r * (k + 3) % 23 - 11) / 11.0);
    lbfgsfloatval_t label = (r * 7 % 13) > 5 ? 1 : -1, likely = 1 / (1 + exp(-label * sum));
    value -= log(likely);
    for (int k = 0; k < n; ++k)
      g[k] -= label * (1 - likely) * feature[k];
  }
  return value;
}

static int progress(void *unused, const lbfgsfloatval_t *x, const lbfgsfloatval_t *g,
                    const lbfgsfloatval_t value, const lbfgsfloatval_t xnorm,
                    const lbfgsfloatval_t gnorm, const lbfgsfloatval_t step, int n, int k, int ls) {
  (void)unused, (void)x, (void)g, (void)xnorm, (void)gnorm, (void)step, (void)n, (void)ls;
  if (k % 10 == 1)
    printf("%d: %.6e\n", k, value);
  return 0;
}

int main(int argc, char **argv) {
  if (argc != 3)
    return 2;
  int size = atoi(argv[2]), is_logistic = strcmp(argv[1], "valley") != 0,
      n = is_logistic ? FEATURES : size;
  lbfgs_parameter_t options;
  lbfgs_parameter_init(&options);
  options.max_iterations = 60;
  if (strcmp(argv[1], "sparse") == 0) {
    options.orthantwise_c = 2;
    options.linesearch = LBFGS_LINESEARCH_BACKTRACKING;
  }
  lbfgsfloatval_t *x = lbfgs_malloc(n), value = 0;
  if (!x)
    return 1;
  for (int k = 0; k < n; ++k)
    x[k] = is_logistic ? 0 : k % 2 ? 1 : -1.2 - k % 7 * 0.1;
  int code = lbfgs(n, x, &value, is_logistic ? logistic : valley, progress, &size, &options);
  printf("%d: %.9e %.6f %.6f\n", code, value, x[0], x[n - 1]);
  lbfgs_free(x);
  return 0;
}
