// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Draws symbols for the lines of a file: symbols large|small|split FILE COUNT.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "qrencode.h"

static unsigned hash = 2166136261u;

static void draw(const QRcode *code, int show) {
  if (!code) {
    fputs("not encoded\n", stderr);
    exit(1);
  }
  for (int n = 0; n < code->width * code->width; ++n)
    hash = (hash ^ (code->data[n] & 1u)) * 16777619u;
  for (int y = 0; show && y < code->width; ++y) {
    for (int x = 0; x < code->width; ++x)
      fputs(code->data[y * code->width + x] & 1 ? "##" : "  ", stdout);
    putchar('\n');
  }
}

int main(int argc, char **argv) {
  FILE *file = argc == 4 ? fopen(argv[2], "r") : NULL;
  if (!file)
    return 2;
  char line[400], text[3000] = "";
  int count = atoi(argv[3]);
  for (int n = 0; n < count && fgets(line, sizeof line, file); ++n) {
    line[strcspn(line, "\n")] = 0;
    if (strcmp(argv[1], "small") == 0) {
      char number[32];
      snprintf(number, sizeof number, "%d0042%d", n, n * 7919);
      QRcode *code = QRcode_encodeString8bit(line, 0, QR_ECLEVEL_L);
      draw(code, n == 0);
      QRcode_free(code);
      code = QRcode_encodeString(number, 0, QR_ECLEVEL_H, QR_MODE_8, 1);
      draw(code, n == 0);
      QRcode_free(code);
      number[5] = 0;
      code = QRcode_encodeStringMQR(number, 4, QR_ECLEVEL_L, QR_MODE_8, 1);
      draw(code, n == 0);
      QRcode_free(code);
    } else if (strlen(text) + strlen(line) < 1100) {
      strcat(text, line);
    } else if (strcmp(argv[1], "large") == 0) {
      QRcode *code = QRcode_encodeString8bit(text, 0, QR_ECLEVEL_H);
      draw(code, 0);
      QRcode_free(code);
      text[0] = 0;
    } else {
      QRcode_List *list = QRcode_encodeStringStructured(text, 8, QR_ECLEVEL_M, QR_MODE_8, 0);
      for (QRcode_List *one = list; one; one = one->next)
        draw(one->code, 0);
      QRcode_List_free(list);
      text[0] = 0;
    }
  }
  fclose(file);
  printf("%08x\n", hash);
  return 0;
}
