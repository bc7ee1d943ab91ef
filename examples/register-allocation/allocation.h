/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
 * The compiler's part of the toy: live ranges that interfere, registers, and what colouring,
 * spilling and splitting do. It knows nothing of models; the passes in allocator.h (C++) and
 * allocator.c decide through it. */
#ifndef REGISTER_ALLOCATION_ALLOCATION_H
#define REGISTER_ALLOCATION_ALLOCATION_H

#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum {
  Registers = 6,
  Colours = Registers + 1, /* colour 0 is memory */
  MostRanges = 64,
  MostUses = 32,
  MostEdges = MostRanges * MostRanges,
  StateSize = 100
};

typedef struct Range {
  float weight; /* of spilling it */
  uint32_t uses;
  float use_weight[MostUses];
  float use_distance[MostUses];
  bool visited;
  int colour; /* 0 also before it is visited */
} Range;

typedef struct Allocation {
  uint32_t ranges;
  Range range[MostRanges];
  float state[MostRanges][StateSize];
  float annotation[MostRanges][3]; /* degree, uses, was split */
  bool interferes[MostRanges][MostRanges];
  float spilled;  /* sum of the weights of spilled ranges */
  uint64_t trace; /* hash of all that was observed and decided, for comparison */
} Allocation;

/* A function of 6 to 17 live ranges, made up from the seed. */
void allocation_begin(Allocation *a, uint64_t seed);
bool allocation_is_complete(const Allocation *a);
/* Pairs of ranges, 2 numbers each; how many pairs. */
uint32_t allocation_edges(const Allocation *a, int64_t *pairs);
/* Which colours no visited neighbour has; memory always is. How many registers. */
uint32_t allocation_allowed(const Allocation *a, uint32_t range, bool *allowed);
uint32_t allocation_degree(const Allocation *a, uint32_t range);
bool allocation_can_split(const Allocation *a, uint32_t range);
/* Visits the range; what that is worth: its weight, less if it is spilled. */
float allocation_colour(Allocation *a, uint32_t range, int colour);
/* Cuts the range in two after a use; the second half is a new range. What that is worth. */
float allocation_split(Allocation *a, uint32_t range, uint32_t use);
/* Adds to the trace. */
void allocation_note(Allocation *a, const void *bytes, uint64_t size);

#ifdef __cplusplus
}
#endif

#endif
