// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Compresses and decompresses files: squeeze compress|stream|decompress FILE.
#include <cstdio>
#include <fstream>
#include <iterator>
#include <string>

#include "snappy-sinksource.h"
#include "snappy.h"

static unsigned sum(const std::string &bytes) {
  unsigned hash = 2166136261u;
  for (const char byte : bytes)
    hash = (hash ^ static_cast<unsigned char>(byte)) * 16777619u;
  return hash;
}

int main(int argc, char **argv) {
  if (argc != 3)
    return 2;
  const std::string how = argv[1];
  std::ifstream file(argv[2], std::ios::binary);
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  std::string packed, again;
  if (how == "stream") {
    // Blocks of 20000 bytes, each checked as a server would.
    for (std::size_t at = 0; at < text.size(); at += 20000) {
      std::string block(snappy::MaxCompressedLength(20000), '\0');
      std::size_t size = 0;
      snappy::ByteArraySource source(text.data() + at,
                                     std::min<std::size_t>(20000, text.size() - at));
      snappy::UncheckedByteArraySink sink(&block[0]);
      size = snappy::Compress(&source, &sink);
      block.resize(size);
      if (!snappy::IsValidCompressedBuffer(block.data(), block.size()))
        return 1;
      packed += block;
    }
  } else {
    snappy::Compress(text.data(), text.size(), &packed);
    for (int n = 0; n < (how == "decompress" ? 10 : 1); ++n) {
      if (!snappy::Uncompress(packed.data(), packed.size(), &again) || again != text)
        return 1;
    }
  }
  std::printf("%zu to %zu bytes, %08x %08x\n", text.size(), packed.size(), sum(packed), sum(again));
  return 0;
}
