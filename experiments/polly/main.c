// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// PROGRAM [MILLISECONDS]: prints a checksum of what one call of the kernel computes, and then the
// least nanoseconds of a call, of as many as this time allows, but two at least. Each call begins
// with the same values. Times are those of the processor, which other programs disturb less.
#include "kernel.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static size_t bytes(const struct array *of) { return of->count * (of->type == 'd' ? 8 : 4); }

/* From 0.5 to 1, so that kernels can divide, and sums stay normal; integers from 1 to 100. */
static void fill(const struct array *it, uint32_t state) {
  for (size_t i = 0; i < it->count; ++i) {
    state = state * 1664525u + 1013904223u;
    const double value = 0.5 + (double)(state >> 8) / (1 << 25);
    if (it->type == 'd')
      ((double *)it->data)[i] = value;
    else if (it->type == 'f')
      ((float *)it->data)[i] = (float)value;
    else
      ((int *)it->data)[i] = 1 + (int)((state >> 8) % 100);
  }
}

static uint64_t checksum(void) {
  uint64_t sum = 14695981039346656037u;
  for (const struct array *a = arrays; a->data; ++a)
    for (size_t i = 0; i < bytes(a) / 4; ++i)
      sum = (sum ^ ((const uint32_t *)a->data)[i]) * 1099511628211u;
  return sum;
}

int main(int count, char **arguments) {
  const double most = count > 1 ? atof(arguments[1]) * 1e6 : 0;
  size_t all = 0, at = 0;
  for (const struct array *a = arrays; a->data; ++a)
    all += bytes(a);
  char *const first = malloc(all);
  if (!first)
    return 1;
  for (const struct array *a = arrays; a->data; at += bytes(a++)) {
    fill(a, (uint32_t)(a - arrays));
    memcpy(first + at, a->data, bytes(a));
  }
  kernel();
  printf("%016llx", (unsigned long long)checksum());
  double least = 1e30, whole = 0;
  for (int call = 0; most > 0 && (call < 2 || whole < most); ++call) {
    at = 0;
    for (const struct array *a = arrays; a->data; at += bytes(a++))
      memcpy(a->data, first + at, bytes(a));
    const double start = now();
    kernel();
    const double spent = now() - start;
    whole += spent;
    if (spent < least)
      least = spent;
  }
  if (most > 0)
    printf(" %.0f", least);
  printf("\n");
  free(first);
  return 0;
}
