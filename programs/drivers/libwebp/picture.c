/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
   Pictures: picture lossy|small|lossless|decode|animate FILE.ppm. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "webp/decode.h"
#include "webp/demux.h"
#include "webp/encode.h"
#include "webp/mux.h"

static void check(int ok, const char *what) {
  if (!ok) {
    fprintf(stderr, "picture: %s failed\n", what);
    exit(1);
  }
}

static uint8_t *read_ppm(const char *path, int *width, int *height) {
  FILE *file = fopen(path, "rb");
  check(file && fscanf(file, "P6 %d %d 255", width, height) == 2 && fgetc(file) == '\n', path);
  size_t size = (size_t)*width * *height * 3;
  uint8_t *rgb = malloc(size);
  check(rgb && fread(rgb, 1, size, file) == size, path);
  fclose(file);
  return rgb;
}

static void write_all(const uint8_t *bytes, size_t size) {
  check(fwrite(bytes, 1, size, stdout) == size, "write");
}

static WebPMemoryWriter encode(const uint8_t *rgb, int width, int height,
                               const WebPConfig *config) {
  WebPPicture picture;
  WebPMemoryWriter writer;
  WebPMemoryWriterInit(&writer);
  check(WebPPictureInit(&picture), "init");
  picture.width = width;
  picture.height = height;
  picture.use_argb = config->lossless;
  picture.writer = WebPMemoryWrite;
  picture.custom_ptr = &writer;
  check(WebPPictureImportRGB(&picture, rgb, width * 3), "import");
  check(WebPEncode(config, &picture), "encode");
  WebPPictureFree(&picture);
  return writer;
}

/* Decodes the same picture in several ways: as RGB, scaled, and cropped without filters. */
static void decode(const WebPMemoryWriter *from) {
  for (int way = 0; way < 12; way++) {
    WebPDecoderConfig config;
    check(WebPInitDecoderConfig(&config), "init");
    if (way % 3 == 1) {
      config.options.use_scaling = 1;
      config.options.scaled_width = 200;
      config.options.scaled_height = 150;
    } else if (way % 3 == 2) {
      config.options.use_cropping = 1;
      config.options.crop_left = config.options.crop_top = 32;
      config.options.crop_width = config.options.crop_height = 160;
      config.options.bypass_filtering = 1;
    }
    config.output.colorspace = way % 2 ? MODE_RGB : MODE_BGRA;
    check(WebPDecode(from->mem, from->size, &config) == VP8_STATUS_OK, "decode");
    write_all(config.output.u.RGBA.rgba, config.output.u.RGBA.size);
    WebPFreeDecBuffer(&config.output);
  }
}

/* An animation of windows that move over the picture. */
static void animate(const uint8_t *rgb, int width) {
  const int side = 96;
  WebPAnimEncoderOptions options;
  check(WebPAnimEncoderOptionsInit(&options), "options");
  WebPAnimEncoder *encoder = WebPAnimEncoderNew(side, side, &options);
  WebPConfig config;
  check(encoder && WebPConfigPreset(&config, WEBP_PRESET_ICON, 60), "encoder");
  config.method = 2;
  for (int frame = 0; frame < 24; frame++) {
    WebPPicture picture;
    check(WebPPictureInit(&picture), "init");
    picture.width = picture.height = side;
    picture.use_argb = 1;
    check(WebPPictureImportRGB(&picture, rgb + (frame * width * 2 + frame * 6) * 3, width * 3),
          "import");
    check(WebPAnimEncoderAdd(encoder, &picture, frame * 40, &config), "add");
    WebPPictureFree(&picture);
  }
  WebPData data;
  WebPDataInit(&data);
  check(WebPAnimEncoderAdd(encoder, NULL, 960, NULL) && WebPAnimEncoderAssemble(encoder, &data),
        "assemble");
  write_all(data.bytes, data.size);
  WebPAnimDecoder *decoder = WebPAnimDecoderNew(&data, NULL);
  check(decoder != NULL, "decoder");
  while (WebPAnimDecoderHasMoreFrames(decoder)) {
    uint8_t *canvas;
    int time;
    check(WebPAnimDecoderGetNext(decoder, &canvas, &time), "next");
    write_all(canvas, side * side * 4);
  }
  WebPAnimDecoderDelete(decoder);
  WebPDataClear(&data);
  WebPAnimEncoderDelete(encoder);
}

int main(int argc, char **argv) {
  int width, height;
  WebPConfig config;
  if (argc != 3)
    return 2;
  uint8_t *rgb = read_ppm(argv[2], &width, &height);
  check(WebPConfigInit(&config), "config");
  if (!strcmp(argv[1], "animate")) {
    animate(rgb, width);
  } else {
    if (!strcmp(argv[1], "lossless")) {
      check(WebPConfigLosslessPreset(&config, 2), "preset");
    } else if (!strcmp(argv[1], "small")) {
      config.target_size = 6000;
      config.pass = 5;
      config.method = 6;
    } else {
      config.method = !strcmp(argv[1], "decode") ? 0 : 4;
    }
    WebPMemoryWriter writer = encode(rgb, width, height, &config);
    if (!strcmp(argv[1], "decode"))
      decode(&writer);
    else
      write_all(writer.mem, writer.size);
    WebPMemoryWriterClear(&writer);
  }
  free(rgb);
  return 0;
}
