// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Renders a module as samples: render spline|linear|plain FILE FRAMES.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "xmp.h"

int main(int argc, char **argv) {
  if (argc != 4)
    return 2;
  xmp_context player = xmp_create_context();
  int code = xmp_load_module(player, argv[2]);
  if (code != 0) {
    fprintf(stderr, "cannot load: %d\n", code);
    return 1;
  }
  int plain = strcmp(argv[1], "plain") == 0, spline = strcmp(argv[1], "spline") == 0;
  xmp_start_player(player, plain ? 22050 : 48000, plain ? XMP_FORMAT_8BIT | XMP_FORMAT_MONO : 0);
  xmp_set_player(player, XMP_PLAYER_INTERP,
                 plain    ? XMP_INTERP_NEAREST
                 : spline ? XMP_INTERP_SPLINE
                          : XMP_INTERP_LINEAR);
  xmp_set_player(player, XMP_PLAYER_DSP, spline ? XMP_DSP_LOWPASS : 0);
  struct xmp_module_info module;
  xmp_get_module_info(player, &module);
  printf("%s: %d patterns, %d channels\n", module.mod->name, module.mod->pat, module.mod->chn);
  unsigned hash = 2166136261u;
  struct xmp_frame_info frame = {0};
  for (int n = atoi(argv[3]); n > 0 && xmp_play_frame(player) == 0; --n) {
    xmp_get_frame_info(player, &frame);
    const unsigned char *bytes = frame.buffer;
    for (int k = 0; k < frame.buffer_size; ++k)
      hash = (hash ^ bytes[k]) * 16777619u;
  }
  printf("position %d, row %d: %08x\n", frame.pos, frame.row, hash);
  xmp_end_player(player);
  xmp_release_module(player);
  xmp_free_context(player);
  return 0;
}
