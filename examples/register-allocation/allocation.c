/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include "allocation.h"

#include <string.h>

/* SplitMix64. */
static uint64_t draw(uint64_t *state) {
  uint64_t x = *state += 0x9e3779b97f4a7c15u;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

static uint32_t below(uint64_t *state, uint32_t limit) { return (uint32_t)(draw(state) % limit); }

/* All numbers are multiples of 1/64, so that sums are exact in any order. */
static void annotate(Allocation *a) {
  for (uint32_t i = 0; i < a->ranges; ++i) {
    a->annotation[i][0] = (float)allocation_degree(a, i);
    a->annotation[i][1] = (float)a->range[i].uses;
  }
}

void allocation_begin(Allocation *a, uint64_t seed) {
  memset(a, 0, sizeof *a);
  a->trace = 0xcbf29ce484222325u;
  uint64_t random = seed;
  a->ranges = 6 + below(&random, 12);
  for (uint32_t i = 0; i < a->ranges; ++i) {
    Range *range = &a->range[i];
    range->uses = 1 + below(&random, 12);
    for (uint32_t u = 0; u < range->uses; ++u) {
      range->use_weight[u] = (float)(1 + below(&random, 64)) / 16;
      range->use_distance[u] =
          (float)(u ? range->use_distance[u - 1] + (float)below(&random, 8) : 0);
      range->weight += range->use_weight[u];
    }
    for (uint32_t d = 0; d < StateSize; ++d)
      a->state[i][d] = ((float)below(&random, 129) - 64) / 32;
    for (uint32_t k = 0; k < i; ++k)
      a->interferes[i][k] = a->interferes[k][i] = below(&random, 100) < 60;
  }
  annotate(a);
}

bool allocation_is_complete(const Allocation *a) {
  for (uint32_t i = 0; i < a->ranges; ++i)
    if (!a->range[i].visited)
      return false;
  return true;
}

uint32_t allocation_edges(const Allocation *a, int64_t *pairs) {
  uint32_t count = 0;
  for (uint32_t i = 0; i < a->ranges; ++i)
    for (uint32_t k = 0; k < i; ++k)
      if (a->interferes[i][k]) {
        pairs[2 * count] = i;
        pairs[2 * count + 1] = k;
        ++count;
      }
  return count;
}

uint32_t allocation_allowed(const Allocation *a, uint32_t range, bool *allowed) {
  uint32_t count = Registers;
  for (int c = 0; c < Colours; ++c)
    allowed[c] = true;
  for (uint32_t k = 0; k < a->ranges; ++k) {
    const Range *other = &a->range[k];
    if (!a->interferes[range][k] || !other->visited || other->colour == 0 ||
        !allowed[other->colour])
      continue;
    allowed[other->colour] = false;
    --count;
  }
  return count;
}

uint32_t allocation_degree(const Allocation *a, uint32_t range) {
  uint32_t degree = 0;
  for (uint32_t k = 0; k < a->ranges; ++k)
    degree += a->interferes[range][k];
  return degree;
}

bool allocation_can_split(const Allocation *a, uint32_t range) {
  return a->ranges < MostRanges && a->range[range].uses >= 2;
}

float allocation_colour(Allocation *a, uint32_t range, int colour) {
  Range *r = &a->range[range];
  r->visited = true;
  r->colour = colour;
  if (colour)
    return r->weight;
  a->spilled += r->weight;
  return -r->weight;
}

float allocation_split(Allocation *a, uint32_t range, uint32_t use) {
  const uint32_t fresh = a->ranges++;
  Range *first = &a->range[range], *second = &a->range[fresh];
  const float before = first->weight;
  for (uint32_t u = use + 1; u < first->uses; ++u) {
    second->use_weight[second->uses] = first->use_weight[u];
    second->use_distance[second->uses++] = first->use_distance[u] - first->use_distance[use + 1];
  }
  first->uses = use + 1;
  first->weight = second->weight = 0;
  for (uint32_t u = 0; u < first->uses; ++u)
    first->weight += first->use_weight[u];
  for (uint32_t u = 0; u < second->uses; ++u)
    second->weight += second->use_weight[u];
  for (uint32_t d = 0; d < StateSize; ++d)
    a->state[fresh][d] = a->state[range][(d + 1) % StateSize];
  /* The halves live where others live: the first keeps the even neighbours, the second the odd. */
  for (uint32_t k = 0; k < fresh; ++k)
    if (a->interferes[range][k]) {
      const bool keeps = k % 2 == 0;
      a->interferes[range][k] = a->interferes[k][range] = keeps;
      a->interferes[fresh][k] = a->interferes[k][fresh] = !keeps;
    }
  a->annotation[range][2] = a->annotation[fresh][2] = 1;
  annotate(a);
  return (before - (first->weight > second->weight ? first->weight : second->weight)) / 64;
}

/* FNV-1a. */
void allocation_note(Allocation *a, const void *bytes, uint64_t size) {
  const unsigned char *at = bytes;
  for (uint64_t i = 0; i < size; ++i)
    a->trace = (a->trace ^ at[i]) * 0x100000001b3u;
}
