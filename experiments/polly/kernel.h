// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A kernel is a file with arrays, a list of them, and `kernel`, which computes with them. main.c
// fills them, calls it and times it, in a file of its own, so that only kernels are tiled.
#ifndef BENCH_POLLY_KERNEL_H
#define BENCH_POLLY_KERNEL_H

#include <stddef.h>

struct array {
  void *data; // null in the last of a list
  size_t count;
  char type; // f, d or i
};

#define ARRAY(NAME, TYPE)                                                                          \
  {NAME, sizeof NAME / sizeof(TYPE),                                                               \
   _Generic((TYPE)0, float: 'f', double: 'd', int: 'i', unsigned: 'i')}
#define ARRAYS(...) struct array arrays[] = {__VA_ARGS__, {NULL, 0, 0}}
/* For a length that the compiler is not to know. */
#define UNKNOWN(NAME, VALUE) volatile int NAME = VALUE
/* A part of `kernel` with arguments, which stay unknown in it. */
#define PART __attribute__((noinline)) static void

extern struct array arrays[];
void kernel(void);

#endif
