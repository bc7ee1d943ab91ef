// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Runs scripts: run FILE [ARGUMENT ...], with print() and a global array of arguments.
#include <stdio.h>
#include <stdlib.h>

#include "duktape.h"

static duk_ret_t print(duk_context *context) {
  duk_push_string(context, " ");
  duk_insert(context, 0);
  duk_join(context, duk_get_top(context) - 1);
  puts(duk_safe_to_string(context, -1));
  return 0;
}

static char *read_all(const char *path, size_t *size) {
  FILE *file = fopen(path, "rb");
  if (!file) {
    perror(path);
    exit(1);
  }
  fseek(file, 0, SEEK_END);
  *size = (size_t)ftell(file);
  rewind(file);
  char *text = malloc(*size + 1);
  if (!text || fread(text, 1, *size, file) != *size)
    exit(1);
  fclose(file);
  return text;
}

static duk_ret_t read_file(duk_context *context) {
  size_t size;
  char *text = read_all(duk_require_string(context, 0), &size);
  duk_push_lstring(context, text, size);
  free(text);
  return 1;
}

int main(int argc, char **argv) {
  duk_context *context = duk_create_heap_default();
  if (argc < 2 || !context)
    return 2;
  duk_push_c_function(context, print, DUK_VARARGS);
  duk_put_global_string(context, "print");
  duk_push_c_function(context, read_file, 1);
  duk_put_global_string(context, "read");
  duk_push_array(context);
  for (int i = 2; i < argc; ++i) {
    duk_push_string(context, argv[i]);
    duk_put_prop_index(context, -2, (duk_uarridx_t)(i - 2));
  }
  duk_put_global_string(context, "args");
  size_t size;
  char *text = read_all(argv[1], &size);
  int failed = duk_peval_lstring(context, text, size) != 0;
  if (failed)
    fprintf(stderr, "%s\n", duk_safe_to_string(context, -1));
  free(text);
  duk_destroy_heap(context);
  return failed;
}
