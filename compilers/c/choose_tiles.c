/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include "choose_tiles.h"

#include <stdio.h>
#include <stdlib.h>

struct tiles_chooser {
  mlbridge_runner *runner;
  char message[160]; /* of an answer that can't be used */
};

tiles_chooser *tiles_open(const char *uri, const mlbridge_open_options *options) {
  const mlbridge_tensor_spec in[] = {
      MLBRIDGE_TENSOR("loops", MLBRIDGE_FLOAT32, TILES_LOOPS, TILES_FEATURES)};
  const mlbridge_tensor_spec out[] = {MLBRIDGE_TENSOR("sizes", MLBRIDGE_INT64, TILES_LOOPS)};
  const mlbridge_signature signature = MLBRIDGE_SIGNATURE(in, out);
  tiles_chooser *chooser = calloc(1, sizeof *chooser);
  if (chooser)
    chooser->runner = mlbridge_open(uri, &signature, options);
  return chooser;
}

static mlbridge_code wrong(tiles_chooser *chooser, mlbridge_code code, const char *format,
                           long long one, int other) {
  snprintf(chooser->message, sizeof chooser->message, format, one, other);
  return code;
}

mlbridge_code choose_tiles(tiles_chooser *chooser, const tiles_loop *loops, int count,
                           int64_t *sizes) {
  float rows[TILES_LOOPS][TILES_FEATURES] = {{0}};
  chooser->message[0] = 0;
  if (count < 1 || count > TILES_LOOPS)
    return wrong(chooser, MLBRIDGE_INVALID_ARGUMENT, "%lld loops; expected 1 to %d", count,
                 TILES_LOOPS);
  for (int i = 0; i < count; ++i) {
    const tiles_loop *loop = loops + i;
    const float row[] = {(float)loop->trips,    (float)loop->most,     (float)loop->nests,
                         (float)loop->parallel, (float)loop->accesses, (float)loop->temporal,
                         (float)loop->spatial,  (float)loop->bytes,    (float)loop->statements};
    for (int j = 0; j < TILES_FEATURES; ++j)
      rows[i][j] = row[j];
  }
  mlbridge_runner_clear_status(chooser->runner);
  mlbridge_runner_set_at(chooser->runner, 0, MLBRIDGE_FLOAT32, rows, TILES_LOOPS * TILES_FEATURES);
  mlbridge_runner_evaluate(chooser->runner);
  const int64_t *chosen = mlbridge_runner_output_at(chooser->runner, 0, MLBRIDGE_INT64, NULL);
  if (!chosen)
    return mlbridge_runner_code(chooser->runner);
  for (int i = 0; i < count; ++i)
    if (chosen[i] < 1 || chosen[i] > TILES_LARGEST)
      return wrong(chooser, MLBRIDGE_POLICY_FAILED, "sizes: %lld for loop %d; expected 1 to 4096",
                   (long long)chosen[i], i);
  for (int i = 0; i < count; ++i)
    sizes[i] = loops[i].trips > 0 && chosen[i] > loops[i].trips ? loops[i].trips : chosen[i];
  return MLBRIDGE_OK;
}

const char *tiles_message(const tiles_chooser *chooser) {
  return chooser->message[0] ? chooser->message : mlbridge_runner_message(chooser->runner);
}

void tiles_close(tiles_chooser *chooser) {
  if (chooser)
    mlbridge_runner_destroy(chooser->runner);
  free(chooser);
}
