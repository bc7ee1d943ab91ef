/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
   Lines of standard input that match: lines SYNTAX PATTERN ... where SYNTAX is ruby, perl, posix,
   sjis or none-case. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "oniguruma.h"

static void check(int result, OnigErrorInfo *info) {
  if (result == ONIG_NORMAL)
    return;
  UChar text[ONIG_MAX_ERROR_MESSAGE_LEN];
  onig_error_code_to_str(text, result, info);
  fprintf(stderr, "lines: %s\n", (char *)text);
  exit(1);
}

int main(int argc, char **argv) {
  if (argc < 3)
    return 2;
  OnigEncoding encoding = ONIG_ENCODING_UTF8;
  OnigSyntaxType *syntax = ONIG_SYNTAX_RUBY;
  OnigOptionType options = ONIG_OPTION_NONE;
  if (!strcmp(argv[1], "perl"))
    syntax = ONIG_SYNTAX_PERL_NG;
  else if (!strcmp(argv[1], "posix"))
    syntax = ONIG_SYNTAX_POSIX_EXTENDED;
  else if (!strcmp(argv[1], "sjis"))
    encoding = ONIG_ENCODING_SJIS;
  else if (!strcmp(argv[1], "no-case"))
    options = ONIG_OPTION_IGNORECASE;
  check(onig_initialize(&encoding, 1), NULL);
  int count = argc - 2;
  regex_t *patterns[8];
  for (int i = 0; i < count && i < 8; i++) {
    OnigErrorInfo info;
    const UChar *text = (const UChar *)argv[i + 2];
    check(
        onig_new(&patterns[i], text, text + strlen(argv[i + 2]), options, encoding, syntax, &info),
        &info);
  }
  OnigRegion *region = onig_region_new();
  char line[4096];
  while (fgets(line, sizeof line, stdin)) {
    const UChar *start = (const UChar *)line, *end = start + strcspn(line, "\n");
    for (int i = 0; i < count; i++) {
      const UChar *from = start;
      while (from <= end &&
             onig_search(patterns[i], start, end, from, end, region, ONIG_OPTION_NONE) >= 0) {
        int last = region->num_regs - 1;
        printf("%d:%.*s|", i, region->end[last] - region->beg[last], line + region->beg[last]);
        from = start + region->end[0] + (region->end[0] == region->beg[0]);
      }
    }
    putchar('\n');
  }
  onig_region_free(region, 1);
  for (int i = 0; i < count; i++)
    onig_free(patterns[i]);
  onig_end();
  return 0;
}
