// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Compresses a PPM image for a graphics card and shows the error: squeeze range|cluster|unpack IN.
#include <cstdio>
#include <string>
#include <vector>

#include "squish.h"

using Bytes = std::vector<squish::u8>;

static unsigned sum(const Bytes &bytes) {
  unsigned hash = 2166136261u;
  for (const auto byte : bytes)
    hash = (hash ^ byte) * 16777619u;
  return hash;
}

int main(int argc, char **argv) {
  std::FILE *file = argc == 3 ? std::fopen(argv[2], "rb") : nullptr;
  int width = 0, height = 0;
  if (!file || std::fscanf(file, "P6 %d %d 255", &width, &height) != 2 || std::fgetc(file) == EOF)
    return 2;
  Bytes rgba;
  for (int n = 0; n < width * height; ++n) {
    for (int c = 0; c < 3; ++c)
      rgba.push_back(static_cast<squish::u8>(std::fgetc(file)));
    rgba.push_back(static_cast<squish::u8>(n % 256));
  }
  std::fclose(file);
  const std::string how = argv[1];
  const bool unpack = how == "unpack";
  const int fit = how == "cluster" ? squish::kColourClusterFit : squish::kColourRangeFit;
  const int rows = how == "cluster" ? height / 4 : height;
  for (const int format : {squish::kDxt1, squish::kDxt3, squish::kDxt5}) {
    Bytes blocks(squish::GetStorageRequirements(width, rows, format)), again(rgba.size());
    squish::CompressImage(rgba.data(), width, rows, blocks.data(), format | fit);
    for (int n = 0; n < (unpack ? 12 : 1); ++n)
      squish::DecompressImage(again.data(), width, rows, blocks.data(), format);
    double colour = 0, alpha = 0;
    squish::ComputeMSE(rgba.data(), width, rows, blocks.data(), format, colour, alpha);
    std::printf("%d: %zu bytes %08x, errors %.4f %.4f, %08x\n", format, blocks.size(), sum(blocks),
                colour, alpha, sum(again));
  }
  return 0;
}
