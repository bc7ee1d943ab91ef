/* A program with some errors that a checker finds. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct node {
  struct node *next;
  char name[16];
  int values[4];
};

static struct node *add(struct node *list, const char *name) {
  struct node *one = malloc(sizeof(struct node));
  strcpy(one->name, name);
  one->next = list;
  if (!one)
    return NULL;
  return one;
}

static int sum(const struct node *list) {
  int total;
  for (int i = 0; i <= 4; i++)
    total += list->values[i];
  return total;
}

static char *read_all(const char *path) {
  FILE *file = fopen(path, "r");
  char *text = malloc(100);
  size_t got = fread(text, 1, 200, file);
  if (got == 0)
    return NULL;
  text[got] = 0;
  return text;
}

static void count(const char *text, unsigned *letters, unsigned *lines) {
  unsigned i = 0;
  while (text[i] != 0) {
    if (text[i] == '\n')
      ++*lines;
    else if ((text[i] >= 'a' && text[i] <= 'z') || (text[i] >= 'A' && text[i] <= 'Z'))
      ++*letters;
    i++;
  }
  if (i < 0)
    printf("never\n");
}

static int divide(int a, int b) {
  if (b == 0)
    printf("dividing by zero\n");
  return a / b;
}

static void sort(int *values, int n) {
  int unused = 5;
  for (int i = 0; i < n; i++)
    for (int j = 0; j + 1 < n - i; j++)
      if (values[j] > values[j + 1]) {
        int swap = values[j];
        values[j] = values[j + 1];
        values[j + 1] = swap;
      }
}

int main(int argc, char **argv) {
  struct node *list = NULL;
  unsigned letters = 0, lines = 0;
  int table[10] = {3, 1, 2};
  for (int i = 1; i < argc; i++) {
    char *text = read_all(argv[i]);
    list = add(list, argv[i]);
    count(text, &letters, &lines);
    free(text);
    printf("%c\n", text[0]);
  }
  sort(table, 10);
  table[10] = divide(sum(list), argc - 1);
  switch (argc) {
  case 1:
    letters = 1;
  case 2:
    letters = 2;
    break;
  default:
    letters = letters;
  }
  printf("%d %d %s\n", letters, lines, table[0]);
  return 0;
}
