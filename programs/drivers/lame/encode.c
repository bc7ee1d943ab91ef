// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Encodes a WAV file as MP3: encode constant|variable|voice IN OUT.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lame.h"

enum { BLOCK = 4096 };

int main(int argc, char **argv) {
  FILE *in = argc == 4 ? fopen(argv[2], "rb") : NULL, *out = in ? fopen(argv[3], "wb") : NULL;
  if (!out || fseek(in, 44, SEEK_SET) != 0)
    return 2;
  lame_t encoder = lame_init();
  lame_set_in_samplerate(encoder, 44100);
  lame_set_num_channels(encoder, 2);
  lame_set_bWriteVbrTag(encoder, 0);
  if (strcmp(argv[1], "constant") == 0) {
    lame_set_brate(encoder, 192);
    lame_set_quality(encoder, 2);
    lame_set_mode(encoder, JOINT_STEREO);
  } else if (strcmp(argv[1], "variable") == 0) {
    lame_set_VBR(encoder, vbr_mtrh);
    lame_set_VBR_quality(encoder, 4);
  } else {
    lame_set_mode(encoder, MONO);
    lame_set_out_samplerate(encoder, 22050);
    lame_set_brate(encoder, 56);
    lame_set_quality(encoder, 1);
  }
  if (lame_init_params(encoder) < 0)
    return 1;
  short samples[2 * BLOCK];
  unsigned char coded[BLOCK * 5 / 4 + 7200];
  size_t count;
  int size;
  while ((count = fread(samples, 4, BLOCK, in)) > 0) {
    size = lame_encode_buffer_interleaved(encoder, samples, (int)count, coded, sizeof coded);
    if (size < 0)
      return 1;
    fwrite(coded, 1, (size_t)size, out);
  }
  size = lame_encode_flush(encoder, coded, sizeof coded);
  fwrite(coded, 1, (size_t)size, out);
  lame_close(encoder);
  fclose(in);
  return fclose(out) != 0;
}
