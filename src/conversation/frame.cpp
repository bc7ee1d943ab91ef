// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "conversation/frame.h"

#include <cstdio>
#include <cstring>
#include <iterator>

namespace mlbridge {

static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "the wire is little-endian");

namespace {

struct CrcTables {
  uint32_t byte[8][256];
  constexpr CrcTables() : byte() {
    for (uint32_t i = 0; i < 256; ++i) {
      uint32_t c = i;
      for (int k = 0; k < 8; ++k)
        c = (c >> 1) ^ ((c & 1) ? 0x82f63b78u : 0u);
      byte[0][i] = c;
    }
    for (uint32_t i = 0; i < 256; ++i)
      for (int t = 1; t < 8; ++t)
        byte[t][i] = (byte[t - 1][i] >> 8) ^ byte[0][byte[t - 1][i] & 0xff];
  }
};
constexpr CrcTables Tables;

template <typename T> T load(const uint8_t *from) {
  T value;
  std::memcpy(&value, from, sizeof value);
  return value;
}
template <typename T> void store(uint8_t *to, T value) { std::memcpy(to, &value, sizeof value); }

} // namespace

uint32_t crc32c(const uint8_t *data, size_t size) {
  uint32_t crc = ~0u;
  for (; size >= 8; data += 8, size -= 8) {
    const uint64_t word = load<uint64_t>(data) ^ crc;
    crc = 0;
    for (int i = 0; i < 8; ++i)
      crc ^= Tables.byte[7 - i][(word >> (8 * i)) & 0xff];
  }
  for (; size; ++data, --size)
    crc = (crc >> 8) ^ Tables.byte[0][(crc ^ *data) & 0xff];
  return ~crc;
}

void encode(const FrameHeader &header, uint8_t *to) {
  store(to, FrameMagic);
  store(to + 4, uint32_t(0));
  store(to + 8, header.length);
  store(to + 16, static_cast<uint16_t>(header.kind));
  store(to + 18, header.flags);
  store(to + 20, header.stream);
  store(to + 24, header.request);
  store(to + 32, header.left);
  store(to + 4, crc32c(to, FrameHeaderSize));
}

Expected<FrameHeader> decodeFrameHeader(const uint8_t *from) {
  if (load<uint32_t>(from) != FrameMagic) {
    char text[64];
    std::snprintf(text, sizeof text, "%02x %02x %02x %02x %02x %02x %02x %02x", from[0], from[1],
                  from[2], from[3], from[4], from[5], from[6], from[7]);
    return Status(Code::Protocol,
                  std::string("expected a frame that starts with 'MLBF', got the bytes ") + text +
                      ": the peer does not speak this protocol");
  }
  uint8_t copy[FrameHeaderSize];
  std::memcpy(copy, from, sizeof copy);
  const uint32_t stated = load<uint32_t>(from + 4);
  store(copy + 4, uint32_t(0));
  if (const uint32_t found = crc32c(copy, sizeof copy); found != stated) {
    char text[96];
    std::snprintf(text, sizeof text, "frame header damaged: checksum %08x, its bytes give %08x",
                  stated, found);
    return Status(Code::Protocol, text);
  }
  FrameHeader header;
  header.length = load<uint64_t>(from + 8);
  header.kind = static_cast<FrameKind>(load<uint16_t>(from + 16));
  header.flags = load<uint16_t>(from + 18);
  header.stream = load<uint32_t>(from + 20);
  header.request = load<uint64_t>(from + 24);
  header.left = load<uint64_t>(from + 32);
  return header;
}

uint64_t wireTime(Deadline deadline, Deadline::Clock::time_point now) {
  return deadline.isNever()
             ? NoDeadline
             : static_cast<uint64_t>(
                   std::max(Duration(deadline.when() - now), Duration::zero()).count());
}

Deadline fromWireTime(uint64_t left, Deadline::Clock::time_point now) {
  return left > uint64_t(INT64_MAX) ? Deadline::never()
                                    : Deadline::after(Duration(int64_t(left)), now);
}

const char *name(FrameKind kind) {
  static constexpr const char *Names[] = {
      nullptr,        "hello", "welcome", "open-stream",   "stream-opened", "request",
      "reply",        "error", "cancel",  "ping",          "pong",          "busy",
      "close-stream", "reset", "step",    "episode-begin", "reward",        "episode-end",
      "statistics",   "bye",   "turn",    "last"};
  static_assert(std::size(Names) == static_cast<size_t>(FrameKind::Last) + 1);
  const auto number = static_cast<size_t>(kind);
  return number < std::size(Names) ? Names[number] : nullptr;
}

Status unexpectedFrame(const FrameHeader &header) {
  if (header.flags & FlagSkippable)
    return Status();
  const char *known = name(header.kind);
  return Status(Code::Protocol, "unexpected frame of kind " +
                                    (known ? std::string(known)
                                           : std::to_string(static_cast<unsigned>(header.kind))));
}

} // namespace mlbridge
