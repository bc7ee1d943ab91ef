/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
 * The register allocator of allocator.h, written in C. */
#ifndef REGISTER_ALLOCATION_ALLOCATOR_C_H
#define REGISTER_ALLOCATION_ALLOCATOR_C_H

#include "allocation.h"

#include <mlbridge/c/mlbridge.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { SelectNode, SelectTask, ColourNode, SplitNode, AllocatorAgents };

/* Their names and signatures; static. */
const mlbridge_agent_spec *allocator_agents(void);

typedef struct Allocator {
  Allocation allocation;
  mlbridge_environment *environment;
  uint32_t range; /* that was selected */
  bool mask[MostRanges];
  int64_t edges[2 * MostEdges];
} Allocator;

/* `environment` carries what is wrong. End it with allocator_end. */
void allocator_begin(Allocator *allocator);
void allocator_end(Allocator *allocator);

#ifdef __cplusplus
}
#endif

#endif
