/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
 * What `mlbridge aot` makes from a network: a table of constants and one function. An object
 * has the function NAME_model() that returns it; a shared object exports mlb_aot_entry() as well,
 * which is how aot:FILE.so finds it. Programs that know their network when they are built use the
 * header that is made with it, and need nothing of this.
 *
 * The table and all that it points to are immutable and live as long as the code. Fields are added
 * only at its end; fields beyond the size that it states are absent. A change that breaks this
 * raises MLB_AOT_ABI. */
#ifndef MLBRIDGE_AOT_H
#define MLBRIDGE_AOT_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The version of the tables. The library takes tables of versions 1 and 2: since 2, evaluate may
 * read 64 bytes behind its buffers. */
#define MLB_AOT_ABI 2u

/* UTF-8. */
typedef struct mlb_aot_string {
  const char *data; /* not terminated */
  uint64_t size;    /* bytes */
} mlb_aot_string;

/* An input or output. */
typedef struct mlb_aot_tensor {
  mlb_aot_string name;  /* as in the network */
  uint32_t type;        /* mlbridge::ElementType; never String */
  uint32_t rank;        /* number of lengths */
  const int64_t *shape; /* fixed */
} mlb_aot_tensor;

/* The results of evaluate besides 0; else it is 1 + the number of the node that met an index out of
 * range, and the outputs are unspecified. */
#define MLB_AOT_TIMED_OUT (-1)

/* A compiled network. */
typedef struct mlb_aot_model {
  uint64_t size;                  /* of this table, in bytes */
  uint32_t abi;                   /* MLB_AOT_ABI */
  uint32_t reserved;              /* 0 */
  mlb_aot_string name;            /* under which it is registered: aot:NAME */
  const mlb_aot_tensor *inputs;   /* in the order of evaluate */
  uint64_t inputs_size;           /* number of them */
  const mlb_aot_tensor *outputs;  /* the same */
  uint64_t outputs_size;          /* number of them */
  const mlb_aot_string *metadata; /* key, value, key, value, ... */
  uint64_t metadata_size;         /* strings, twice the number of keys */
  /* Null: the weights are in a separate file, whose contents are passed to evaluate. */
  const void *weights;
  uint64_t weights_size;       /* bytes */
  uint64_t weights_id;         /* equal for networks whose weights are interchangeable */
  uint64_t workspace_size;     /* bytes */
  const mlb_aot_string *nodes; /* "Gather 'lookup'" */
  uint64_t nodes_size;         /* number of them */
  /* Reentrant. weights: weights_size bytes. workspace: workspace_size bytes, of this call alone,
   * without meaning before and after. inputs and outputs: a buffer for each, dense, row-major. All
   * are aligned to 64 bytes, and 64 bytes of no meaning behind each but the weights may be read.
   * left: nanoseconds until the deadline, which the network's loops check; UINT64_MAX for none.
   * Allocates nothing. */
  int32_t (*evaluate)(const void *weights, void *workspace, void *const *inputs,
                      void *const *outputs, uint64_t left);
} mlb_aot_model;

const mlb_aot_model *mlb_aot_entry(void); /* what a shared object exports; never null */

/* A program may define this (with hidden visibility) to list the networks linked into it: index
 * from 0, null past the last. They are opened as aot:NAME. (mlbridge_compile_model of CMake does
 * so.) */
const mlb_aot_model *mlbridge_linked_model(uint64_t index);

/* Weights in a file: this, then weights_size bytes. */
typedef struct mlb_aot_weights {
  char magic[8];        /* "MLBWGT1\n" */
  uint64_t id;          /* weights_id */
  uint64_t size;        /* weights_size */
  uint64_t reserved[5]; /* 0 */
} mlb_aot_weights;

#ifdef __cplusplus
} /* extern "C" */
#endif

#endif
