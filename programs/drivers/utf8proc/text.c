// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Works on the text of a file: text normalize|fold|graphemes FILE TIMES.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "utf8proc.h"

static unsigned sum(const utf8proc_uint8_t *bytes) {
  unsigned hash = 2166136261u;
  while (*bytes)
    hash = (hash ^ *bytes++) * 16777619u;
  return hash;
}

static void graphemes(const utf8proc_uint8_t *text) {
  utf8proc_int32_t before = -1, state = 0, code;
  long clusters = 0, width = 0, kinds[32] = {0};
  while (*text) {
    utf8proc_ssize_t size = utf8proc_iterate(text, -1, &code);
    if (size <= 0)
      exit(1);
    if (before >= 0 && utf8proc_grapheme_break_stateful(before, code, &state))
      ++clusters;
    width += utf8proc_charwidth(code);
    ++kinds[utf8proc_category(code)];
    before = utf8proc_toupper(code);
    text += size;
  }
  printf("%ld clusters, width %ld, %ld small letters\n", clusters, width,
         kinds[UTF8PROC_CATEGORY_LL]);
}

int main(int argc, char **argv) {
  FILE *file = argc == 4 ? fopen(argv[2], "rb") : NULL;
  if (!file)
    return 2;
  fseek(file, 0, SEEK_END);
  size_t size = (size_t)ftell(file);
  rewind(file);
  utf8proc_uint8_t *text = calloc(1, size + 1);
  if (!text || fread(text, 1, size, file) != size)
    return 1;
  fclose(file);
  for (int n = atoi(argv[3]); n > 0; --n) {
    if (strcmp(argv[1], "graphemes") == 0) {
      graphemes(text);
      continue;
    }
    utf8proc_uint8_t *first, *second;
    if (strcmp(argv[1], "fold") == 0) {
      first = utf8proc_NFKC_Casefold(text);
      utf8proc_option_t options = UTF8PROC_NULLTERM | UTF8PROC_DECOMPOSE | UTF8PROC_STRIPMARK |
                                  UTF8PROC_LUMP | UTF8PROC_STABLE;
      if (utf8proc_map(text, 0, &second, options) < 0)
        return 1;
    } else {
      first = utf8proc_NFD(text);
      second = first ? utf8proc_NFC(first) : NULL;
    }
    if (!first || !second)
      return 1;
    printf("%08x %08x\n", sum(first), sum(second));
    free(first);
    free(second);
  }
  free(text);
  return 0;
}
