// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Loops, calls, strings and memory: something for most groups to do.
#include <stdio.h>
#include <string.h>

struct word {
  char text[16];
  int count;
};

static struct word table[32];
static int used;

static unsigned hash(const char *s) {
  unsigned h = 5381;
  while (*s)
    h = h * 33 + (unsigned char)*s++;
  return h;
}

static struct word *find(const char *s) {
  for (int i = 0; i < used; i++)
    if (hash(table[i].text) == hash(s) && strcmp(table[i].text, s) == 0)
      return &table[i];
  return 0;
}

static void add(const char *s, int length) {
  char copy[16];
  memset(copy, 0, sizeof copy);
  memcpy(copy, s, length < 15 ? length : 15);
  struct word *w = find(copy);
  if (!w && used < 32) {
    w = &table[used++];
    strcpy(w->text, copy);
  }
  if (w)
    w->count++;
}

static int weight(int kind, int n) {
  switch (kind) {
  case 0: return n * 3;
  case 1: return n * 5;
  case 2: return n * 7;
  default: return n;
  }
}

int count_words(const char *s) {
  int total = 0;
  while (*s) {
    int n = 0;
    while (s[n] && s[n] != ' ')
      n++;
    if (n)
      add(s, n);
    total += weight(n & 3, n);
    s += n;
    while (*s == ' ')
      s++;
  }
  return total;
}

int main(void) {
  int total = count_words("a model asks a compiler and a compiler asks a model");
  for (int i = 0; i < used; i++)
    printf("%s %d\n", table[i].text, table[i].count);
  printf("%d\n", total);
  return 0;
}
