// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Compiles C: compile preprocess|object|run FILE TIMES [FUNCTION].
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "libtcc.h"

static TCCState *started(int type) {
  TCCState *state = tcc_new();
  if (!state)
    exit(1);
  // No system headers, so that it compiles the same everywhere.
  tcc_set_options(state, "-nostdlib -nostdinc");
  tcc_set_output_type(state, type);
  return state;
}

int main(int argc, char **argv) {
  if (argc < 4)
    return 2;
  for (int n = atoi(argv[3]); n > 0; --n) {
    int last = n == 1;
    if (strcmp(argv[1], "preprocess") == 0) {
      TCCState *state = started(TCC_OUTPUT_PREPROCESS);
      if (tcc_add_file(state, argv[2]) < 0)
        return 1;
      tcc_delete(state);
    } else if (strcmp(argv[1], "object") == 0) {
      TCCState *state = started(TCC_OUTPUT_OBJ);
      if (tcc_add_file(state, argv[2]) < 0 || tcc_output_file(state, "made.o") < 0)
        return 1;
      tcc_delete(state);
    } else {
      TCCState *state = started(TCC_OUTPUT_MEMORY);
      if (tcc_add_file(state, argv[2]) < 0 || tcc_relocate(state, TCC_RELOCATE_AUTO) < 0)
        return 1;
      int (*function)(int) = (int (*)(int))tcc_get_symbol(state, "work");
      if (!function)
        return 1;
      if (last)
        printf("%d\n", function(7));
      tcc_delete(state);
    }
  }
  return 0;
}
