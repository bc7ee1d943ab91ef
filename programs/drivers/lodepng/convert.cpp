// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Converts between PPM and PNG: convert encode|colours|filter|decode IN OUT.
#include <cstdio>
#include <cstring>
#include <set>
#include <string>
#include <vector>

#include "lodepng.h"

using Bytes = std::vector<unsigned char>;

static int fail(const std::string &what) {
  std::fprintf(stderr, "%s\n", what.c_str());
  return 1;
}

static bool read_ppm(const char *path, Bytes &rgb, unsigned &width, unsigned &height) {
  Bytes data;
  int start = 0;
  if (lodepng::load_file(data, path) != 0)
    return false;
  data.push_back(0);
  if (std::sscanf(reinterpret_cast<char *>(data.data()), "P6 %u %u 255%n", &width, &height,
                  &start) != 2)
    return false;
  rgb.assign(data.begin() + start + 1, data.end() - 1);
  return rgb.size() == std::size_t(3) * width * height;
}

int main(int argc, char **argv) {
  if (argc != 4)
    return fail("convert encode|colours|filter|decode IN OUT");
  const std::string how = argv[1];
  Bytes pixels, out;
  unsigned width = 0, height = 0, error = 0;
  if (how == "decode") {
    error = lodepng::decode(pixels, width, height, std::string(argv[2]), LCT_RGB);
    const std::string head =
        "P6\n" + std::to_string(width) + " " + std::to_string(height) + "\n255\n";
    out.assign(head.begin(), head.end());
    out.insert(out.end(), pixels.begin(), pixels.end());
  } else {
    if (!read_ppm(argv[2], pixels, width, height))
      return fail("not a PPM file");
    lodepng::State state;
    state.info_raw.colortype = LCT_RGB;
    if (how == "colours") {
      // 216 colours, so that a palette is chosen.
      for (auto &value : pixels)
        value = static_cast<unsigned char>((value + 25) / 51 * 51);
    } else if (how == "filter") {
      state.encoder.filter_strategy = LFS_ENTROPY;
      state.encoder.zlibsettings.windowsize = 32768;
      state.encoder.zlibsettings.nicematch = 258;
    } else {
      state.encoder.auto_convert = 0;
      state.encoder.filter_strategy = LFS_ZERO;
    }
    error = lodepng::encode(out, pixels, width, height, state);
  }
  if (error != 0)
    return fail(lodepng_error_text(error));
  return lodepng::save_file(out, argv[3]) == 0 ? 0 : fail("cannot write");
}
