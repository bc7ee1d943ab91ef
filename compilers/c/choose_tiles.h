/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
 * Tile sizes that a model chooses, for polyhedral compilers in C. One thread at a time. */
#ifndef CHOOSE_TILES_H
#define CHOOSE_TILES_H

#include <mlbridge/c/mlbridge.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { TILES_LOOPS = 8, TILES_FEATURES = 9, TILES_LARGEST = 4096 };

/* A dimension of a band of loops that can be tiled. */
typedef struct tiles_loop {
  int64_t trips; /* 0: not known, or not always the same */
  int64_t most;  /* at least as large as its trips; 0: not known */
  int nests;     /* innermost loops in it, or 1 if it is one */
  int parallel;  /* 1 if its iterations may run in any order */
  int accesses;  /* of memory, in all statements */
  int temporal;  /* accesses whose address doesn't depend on it */
  int spatial;   /* accesses whose address grows by an element with it */
  int bytes;     /* of the widest element accessed */
  int statements;
} tiles_loop;

typedef struct tiles_chooser tiles_chooser;

/* Opens the model at a URI, which takes "loops", float32 [8, 9], a row for each loop with its
 * members in their order, zeros after the last, and gives "sizes", int64 [8]. `options` may be
 * null. Gives NULL if there is no memory. The first choose_tiles says if it could not be opened. */
tiles_chooser *tiles_open(const char *uri, const mlbridge_open_options *options);

/* Chooses for 1 to 8 loops, outermost first; blocks until the model has answered, or the deadline.
 * A size is between 1, which leaves a loop as it is, and 4096, and no larger than the loop's trips.
 * If it isn't MLBRIDGE_OK, `sizes` are as before, and tiles_message says why. */
mlbridge_code choose_tiles(tiles_chooser *chooser, const tiles_loop *loops, int count,
                           int64_t *sizes);

/* Why the last choose_tiles failed; valid until the next. */
const char *tiles_message(const tiles_chooser *chooser);

void tiles_close(tiles_chooser *chooser); /* or NULL */

#ifdef __cplusplus
}
#endif

#endif
