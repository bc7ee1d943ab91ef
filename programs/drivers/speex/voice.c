/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
   Encodes and decodes sound.wav: voice narrow|wide|variable FILE QUALITY FRAMES. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "speex/speex.h"

int main(int argc, char **argv) {
  if (argc != 5)
    return 2;
  FILE *file = fopen(argv[2], "rb");
  if (!file || fseek(file, 44, SEEK_SET))
    return 1;
  int wide = !strcmp(argv[1], "wide"), variable = !strcmp(argv[1], "variable");
  const SpeexMode *mode = speex_lib_get_mode(wide ? SPEEX_MODEID_WB : SPEEX_MODEID_NB);
  void *encoder = speex_encoder_init(mode), *decoder = speex_decoder_init(mode);
  int quality = atoi(argv[3]), complexity = 3, enhance = 1, size;
  speex_encoder_ctl(encoder, SPEEX_SET_COMPLEXITY, &complexity);
  if (variable) {
    float level = (float)quality;
    int on = 1;
    speex_encoder_ctl(encoder, SPEEX_SET_VBR, &on);
    speex_encoder_ctl(encoder, SPEEX_SET_VBR_QUALITY, &level);
    speex_encoder_ctl(encoder, SPEEX_SET_DTX, &on);
  } else {
    speex_encoder_ctl(encoder, SPEEX_SET_QUALITY, &quality);
  }
  speex_decoder_ctl(decoder, SPEEX_SET_ENH, &enhance);
  speex_encoder_ctl(encoder, SPEEX_GET_FRAME_SIZE, &size);
  SpeexBits bits;
  speex_bits_init(&bits);
  for (int frame = 0; frame < atoi(argv[4]); frame++) {
    spx_int16_t samples[1024], pairs[2048];
    char bytes[400];
    if (fread(pairs, 4, size, file) != (size_t)size)
      break;
    for (int i = 0; i < size; i++)
      samples[i] = pairs[2 * i];
    speex_bits_reset(&bits);
    speex_encode_int(encoder, samples, &bits);
    int length = speex_bits_write(&bits, bytes, sizeof bytes);
    fwrite(bytes, 1, length, stdout);
    if (frame % 9 == 8) {
      speex_decode_int(decoder, NULL, samples); /* a lost packet */
    } else {
      speex_bits_read_from(&bits, bytes, length);
      speex_decode_int(decoder, &bits, samples);
    }
    fwrite(samples, 2, size, stdout);
  }
  speex_bits_destroy(&bits);
  speex_encoder_destroy(encoder);
  speex_decoder_destroy(decoder);
  return fclose(file);
}
