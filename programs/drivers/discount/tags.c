/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
   The table of block-level tags and the version, which discount's configure step writes. */
#include "tags.h"

#include <string.h>
#include <strings.h>

char markdown_version[] = "2";

static struct kw tags[60] = {
    {"P", 1, 0},       {"H1", 2, 0},       {"H2", 2, 0},          {"H3", 2, 0},
    {"H4", 2, 0},      {"DL", 2, 0},       {"UL", 2, 0},          {"OL", 2, 0},
    {"BR", 2, 1},      {"HR", 2, 1},       {"!--", 3, 1},         {"PRE", 3, 0},
    {"DIV", 3, 0},     {"XMP", 3, 0},      {"WBR", 3, 1},         {"FORM", 4, 0},
    {"MATH", 4, 0},    {"STYLE", 5, 0},    {"TABLE", 5, 0},       {"TITLE", 5, 0},
    {"CENTER", 6, 0},  {"SCRIPT", 6, 0},   {"IFRAME", 6, 0},      {"OBJECT", 6, 0},
    {"ADDRESS", 7, 0}, {"FIELDSET", 8, 0}, {"BLOCKQUOTE", 10, 0},
};

struct kw *mkd_search_tags(char *name, int length) {
  for (struct kw *tag = tags; tag->id; tag++)
    if (tag->size == length && strncasecmp(tag->id, name, length) == 0)
      return tag;
  return 0;
}

void mkd_define_tag(char *name, int selfclose) {
  struct kw *tag = tags;
  while (tag->id)
    tag++;
  if (!mkd_search_tags(name, strlen(name)))
    *tag = (struct kw){name, (int)strlen(name), selfclose};
}

void mkd_sort_tags(void) {}
void mkd_deallocate_tags(void) {}
