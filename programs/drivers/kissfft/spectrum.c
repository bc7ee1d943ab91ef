// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Transforms the sound of a WAV file, or an image: spectrum complex|real|image FILE TIMES.
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kiss_fft.h"
#include "kiss_fftnd.h"
#include "kiss_fftr.h"

enum { SIZE = 1500, BLOCK = 1024, ROWS = 96, COLUMNS = 128 };

int main(int argc, char **argv) {
  FILE *file = argc == 4 ? fopen(argv[2], "rb") : NULL;
  if (!file || fseek(file, 64, SEEK_SET) != 0)
    return 2;
  int times = atoi(argv[3]);
  double power = 0, back = 0;
  if (strcmp(argv[1], "real") == 0) {
    kiss_fftr_cfg forward = kiss_fftr_alloc(BLOCK, 0, NULL, NULL),
                  inverse = kiss_fftr_alloc(BLOCK, 1, NULL, NULL);
    kiss_fft_scalar sound[BLOCK];
    kiss_fft_cpx spectrum[BLOCK / 2 + 1];
    short samples[BLOCK];
    for (int n = 0; n < times; ++n) {
      if (fread(samples, sizeof *samples, BLOCK, file) != BLOCK)
        fseek(file, 64, SEEK_SET);
      for (int k = 0; k < BLOCK; ++k)
        sound[k] = samples[k] / 32768.0f * (float)sin(M_PI * k / BLOCK);
      kiss_fftr(forward, sound, spectrum);
      for (int k = 200; k <= BLOCK / 2; ++k)
        spectrum[k].r = spectrum[k].i = 0;
      for (int k = 0; k < 200; ++k)
        power += spectrum[k].r * spectrum[k].r + spectrum[k].i * spectrum[k].i;
      kiss_fftri(inverse, spectrum, sound);
      back += sound[n % BLOCK];
    }
    kiss_fft_free(forward);
    kiss_fft_free(inverse);
  } else {
    int image = strcmp(argv[1], "image") == 0, sides[] = {ROWS, COLUMNS},
        size = image ? ROWS * COLUMNS : SIZE;
    kiss_fft_cpx *in = calloc((size_t)size, sizeof *in), *out = calloc((size_t)size, sizeof *out);
    kiss_fftnd_cfg plane = kiss_fftnd_alloc(sides, 2, 0, NULL, NULL);
    // 1500 = 2 * 2 * 3 * 5 * 5 * 5: a butterfly of each kind.
    kiss_fft_cfg line = kiss_fft_alloc(SIZE, 0, NULL, NULL);
    if (!in || !out || !plane || !line)
      return 1;
    for (int n = 0; n < times; ++n) {
      for (int k = 0; k < size; ++k) {
        int byte = fgetc(file);
        if (byte == EOF)
          fseek(file, 64, SEEK_SET);
        in[k].r = (float)byte / 256;
        in[k].i = 0;
      }
      if (image) {
        kiss_fftnd(plane, in, out);
      } else {
        for (int turn = 0; turn < 4; ++turn)
          kiss_fft(line, in, out);
      }
      for (int k = 1; k < size; ++k)
        power += out[k].r * out[k].r + out[k].i * out[k].i;
      back += out[0].r;
    }
    free(in);
    free(out);
    kiss_fft_free(plane);
    kiss_fft_free(line);
  }
  fclose(file);
  printf("%.5e %.5e\n", power, back);
  return 0;
}
