/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
   Keeps words of a text in a database: words count|replace|sequence FILE DATABASE. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gdbm.h"

static void check(int failed) {
  if (failed) {
    fprintf(stderr, "words: %s\n", gdbm_strerror(gdbm_errno));
    exit(1);
  }
}

static datum text(const char *string) {
  datum result = {(char *)string, (int)strlen(string)};
  return result;
}

/* Counts the words of the file in the database. */
static void count(GDBM_FILE db, FILE *file) {
  char word[64], number[16];
  while (fscanf(file, "%63s", word) == 1) {
    datum key = text(word);
    datum value = gdbm_fetch(db, key);
    int n = value.dptr ? atoi(value.dptr) : 0;
    free(value.dptr);
    value.dptr = number;
    value.dsize = sprintf(number, "%d", n + 1) + 1;
    check(gdbm_store(db, key, value, GDBM_REPLACE));
  }
}

/* Stores lines by their first word, deletes others, and reorganizes what is left. */
static void replace(GDBM_FILE db, FILE *file) {
  char line[256];
  int stored = 0, deleted = 0;
  for (int n = 0; fgets(line, sizeof line, file); n++) {
    char *rest = strchr(line, ' ');
    if (!rest)
      continue;
    *rest++ = 0;
    if (n % 5 < 4) {
      int result = gdbm_store(db, text(line), text(rest), n % 2 ? GDBM_REPLACE : GDBM_INSERT);
      check(result < 0);
      stored += result == 0;
    } else if (gdbm_exists(db, text(line))) {
      check(gdbm_delete(db, text(line)));
      deleted++;
    }
  }
  check(gdbm_reorganize(db));
  printf("stored %d, deleted %d\n", stored, deleted);
}

/* Visits all records, in the order in which they lie. */
static void sequence(GDBM_FILE db) {
  gdbm_count_t records;
  unsigned long bytes = 0, sum = 0;
  check(gdbm_count(db, &records));
  for (datum key = gdbm_firstkey(db); key.dptr;) {
    datum value = gdbm_fetch(db, key);
    for (int i = 0; i < value.dsize; i++)
      sum = sum * 31 + (unsigned char)value.dptr[i];
    bytes += key.dsize + value.dsize;
    free(value.dptr);
    datum next = gdbm_nextkey(db, key);
    free(key.dptr);
    key = next;
  }
  printf("%llu records, %lu bytes, %lx\n", (unsigned long long)records, bytes, sum & 0xffff);
}

int main(int argc, char **argv) {
  if (argc != 4)
    return 2;
  FILE *file = fopen(argv[2], "r");
  GDBM_FILE db = gdbm_open(argv[3], 512, GDBM_WRCREAT, 0644, NULL);
  check(!file || !db);
  if (!strcmp(argv[1], "count"))
    count(db, file);
  else if (!strcmp(argv[1], "replace"))
    replace(db, file);
  else
    for (int i = 0; i < 30; i++)
      sequence(db);
  sequence(db);
  gdbm_close(db);
  return fclose(file);
}
