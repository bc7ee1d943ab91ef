/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
 * tile URI N: tiles three kernels over N x N numbers as the model says, and compares what they
 * compute with the untiled ones. The program stands for a compiler, which would make such loops. */
#include "choose_tiles.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { DEFAULT = 32 };

static int64_t n, *a, *b, *c;

static void product(const int64_t *i) {
  c[i[0] * n + i[1]] += a[i[0] * n + i[2]] * b[i[2] * n + i[1]];
}
static void transposition(const int64_t *i) { c[i[0] * n + i[1]] = a[i[1] * n + i[0]]; }
static void sums(const int64_t *i) { c[i[0]] += a[i[0] * n + i[1]] * b[i[1]]; }

static const struct kernel {
  const char *name;
  void (*statement)(const int64_t *i);
  int depth;
  tiles_loop loops[3]; /* trips and most are filled in */
} kernels[] = {
    {"product",
     product,
     3,
     {{0, 0, 1, 1, 4, 1, 0, 8, 1}, {0, 0, 1, 1, 4, 1, 3, 8, 1}, {0, 0, 1, 0, 4, 2, 1, 8, 1}}},
    {"transposition", transposition, 2, {{0, 0, 1, 1, 2, 0, 1, 8, 1}, {0, 0, 1, 1, 2, 0, 1, 8, 1}}},
    {"sums", sums, 2, {{0, 0, 1, 1, 4, 1, 2, 8, 1}, {0, 0, 1, 0, 4, 2, 2, 8, 1}}}};

/* Runs the tiles of the loops from `at` on, and then the iterations of one tile. */
static void run(const struct kernel *kernel, const int64_t *sizes, int at, int64_t *i) {
  const int tiles = at < kernel->depth, loop = tiles ? at : at - kernel->depth;
  if (at == 2 * kernel->depth) {
    kernel->statement(i + kernel->depth);
    return;
  }
  const int64_t first = tiles ? 0 : i[loop], step = tiles ? sizes[loop] : 1;
  const int64_t end = tiles || first + sizes[loop] > n ? n : first + sizes[loop];
  for (i[at] = first; i[at] < end; i[at] += step)
    run(kernel, sizes, at + 1, i);
}

int main(int argc, char **argv) {
  n = argc == 3 ? strtoll(argv[2], NULL, 10) : 0;
  if (n < 1 || n > 512)
    return fprintf(stderr, "usage: tile URI N, N from 1 to 512\n"), 2;
  const size_t bytes = (size_t)(n * n) * sizeof *a;
  int64_t *expected = malloc(bytes);
  a = malloc(bytes), b = malloc(bytes), c = malloc(bytes);
  tiles_chooser *chooser = tiles_open(argv[1], NULL);
  if (!a || !b || !c || !expected || !chooser)
    return fprintf(stderr, "out of memory\n"), 2;
  for (int64_t i = 0; i < n * n; ++i)
    a[i] = i * 7 % 31 - 15, b[i] = i * 5 % 29 - 14;
  int result = 0, warned = 0;
  for (size_t k = 0; k < sizeof kernels / sizeof *kernels; ++k) {
    struct kernel kernel = kernels[k];
    int64_t sizes[TILES_LOOPS], untiled[] = {1, 1, 1}, i[2 * 3];
    memset(c, 0, bytes);
    run(&kernel, untiled, 0, i);
    memcpy(expected, c, bytes);
    /* A compiler does this for each band of loops. */
    for (int at = 0; at < kernel.depth; ++at) {
      kernel.loops[at].trips = kernel.loops[at].most = n;
      sizes[at] = n < DEFAULT ? n : DEFAULT;
    }
    if (choose_tiles(chooser, kernel.loops, kernel.depth, sizes) && !warned++)
      fprintf(stderr, "warning: tiles of %d: %s\n", DEFAULT, tiles_message(chooser));

    memset(c, 0, bytes);
    run(&kernel, sizes, 0, i);
    const int same = !memcmp(expected, c, bytes);
    printf("%s", kernel.name);
    for (int at = 0; at < kernel.depth; ++at)
      printf(" %" PRId64, sizes[at]);
    printf(" %s\n", same ? "same" : "DIFFERENT");
    result |= !same;
  }
  tiles_close(chooser);
  free(a), free(b), free(c), free(expected);
  return result;
}
