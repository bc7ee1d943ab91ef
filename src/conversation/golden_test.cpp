// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The messages of tests/golden/protocol: good ones are read and written again byte by byte, bad
// ones refused.
#include "conversation/frame.h"
#include "conversation/messages.h"
#include "testing/built.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>

namespace mlbridge {
namespace {

using Bytes = std::vector<uint8_t>;
namespace fs = std::filesystem;

const fs::path Folder = testing::sourceFile("tests/golden/protocol");

Bytes contents(const fs::path &file) {
  std::ifstream in(file, std::ios::binary);
  return Bytes(std::istreambuf_iterator<char>(in), {});
}

/// Delivers bytes in pieces, then end of file.
class MemoryChannel final : public Channel {
public:
  MemoryChannel(Bytes bytes, size_t piece) : bytes_(std::move(bytes)), piece_(piece) {}
  Expected<size_t> read(uint8_t *to, size_t size) override {
    const size_t n = std::min({size, piece_, bytes_.size() - at_});
    if (n == 0)
      return Status(Code::Closed, "end");
    std::copy_n(bytes_.begin() + at_, n, to);
    at_ += n;
    return n;
  }
  Expected<size_t> write(const iovec *, int) override { return size_t(0); }
  int readDescriptor() const override { return -1; }
  int writeDescriptor() const override { return -1; }

private:
  Bytes bytes_;
  size_t piece_;
  size_t at_ = 0;
};

/// Decodes every frame as its kind says, and encodes it again where there is an encoder.
class Decoder final : public FrameReader::Target {
public:
  Expected<Buffer *> payloadOf(const FrameHeader &) override { return &payload_; }
  Status frame(const FrameHeader &header) override {
    ++frames;
    Buffer out;
    Status status = out.resize(FrameHeaderSize);
    if (status)
      status = again(header, out);
    if (!status)
      return status;
    FrameHeader copy = header;
    copy.length = out.size() - FrameHeaderSize;
    encode(copy, out.data());
    written.insert(written.end(), out.data(), out.data() + out.size());
    return Status();
  }
  int frames = 0;
  Bytes written;

private:
  template <typename T> static Status encodeAgain(Expected<T> message, Buffer &out) {
    return message ? encode(*message, out) : message.status();
  }
  Status again(const FrameHeader &header, Buffer &out) {
    const Span<const uint8_t> p = payload_.span();
    switch (header.kind) {
    case FrameKind::Hello: {
      Expected<Hello> hello = decode<Hello>(p);
      if (hello && hello->major != ProtocolMajor)
        return Status(Code::Protocol, "version");
      return encodeAgain(std::move(hello), out);
    }
    case FrameKind::Welcome:
      return encodeAgain(decode<Welcome>(p), out);
    case FrameKind::OpenStream:
      return encodeAgain(decode<OpenStream>(p), out);
    case FrameKind::EpisodeBegin:
      return encodeAgain(decode<EpisodeBegin>(p), out);
    case FrameKind::EpisodeEnd:
      return encodeAgain(decode<EpisodeEnd>(p), out);
    case FrameKind::Reset:
      return encodeAgain(decode<ResetMessage>(p), out);
    case FrameKind::Busy:
      return encodeAgain(decode<BusyMessage>(p), out);
    case FrameKind::Turn:
      return encodeAgain(decode<TurnMessage>(p), out);
    case FrameKind::Error: {
      const Status error = decodeError(p);
      return error.code() == Code::Protocol ? error : encode(error, out);
    }
    case FrameKind::Reward:
      return encodeAgain(decode<RewardMessage>(p), out);

    case FrameKind::Bye:
      return encodeAgain(decode<ByeMessage>(p), out);

    case FrameKind::Statistics:
      if (!p.empty())
        return encodeAgain(decode<StatisticsMessage>(p), out);
      break;
    default:
      break;
    }
    return out.append(p.data(), p.size());
  }
  Buffer payload_;
};

Status readAll(const Bytes &bytes, size_t piece, Decoder &decoder) {
  MemoryChannel channel(bytes, piece);
  FrameReader reader;
  while (true) {
    bool progress = false;
    if (Status s = reader.pump(channel, decoder, progress); !s)
      return s;
  }
}

TEST(Golden, GoodMessagesAreReadAndWrittenAgainByteByByte) {
  int files = 0;
  for (const fs::directory_entry &entry : fs::directory_iterator(Folder / "good")) {
    const Bytes bytes = contents(entry.path());
    for (const size_t piece : {size_t(1), size_t(39), bytes.size() + 1}) {
      Decoder decoder;
      const Status end = readAll(bytes, piece, decoder);
      EXPECT_EQ(end.code(), Code::Closed) << entry.path() << ": " << end.toString();
      EXPECT_EQ(end.message(), "end") << entry.path(); // not in mid-frame
      EXPECT_EQ(decoder.frames, 1) << entry.path();
      // Fields that a later version appended are not kept, and its minor number is.
      if (entry.path().stem() != "hello-of-a-later-minor-version") {
        EXPECT_EQ(decoder.written, bytes) << entry.path();
      }
    }
    ++files;
  }
  EXPECT_GE(files, 25);
}

TEST(Golden, BadMessagesAreRefused) {
  int files = 0;
  for (const fs::directory_entry &entry : fs::directory_iterator(Folder / "bad")) {
    const Bytes bytes = contents(entry.path());
    const bool limit = entry.path().stem().string().rfind("length-of", 0) == 0;
    for (const size_t piece : {size_t(1), bytes.size() + 1}) {
      Decoder decoder;
      EXPECT_EQ(readAll(bytes, piece, decoder).code(), limit ? Code::LimitExceeded : Code::Protocol)
          << entry.path();
    }
    ++files;
  }
  EXPECT_GE(files, 20);
}

TEST(Golden, AMessageCutAnywhereIsNeverTakenForWhole) {
  for (const fs::directory_entry &entry : fs::directory_iterator(Folder / "good")) {
    const Bytes bytes = contents(entry.path());
    for (size_t cut = 0; cut < bytes.size(); ++cut) {
      Decoder decoder;
      const Status end = readAll(Bytes(bytes.begin(), bytes.begin() + cut), 64, decoder);
      EXPECT_EQ(end.code(), Code::Closed);
      EXPECT_EQ(decoder.frames, 0) << entry.path() << " cut at " << cut;
      if (cut > 0) {
        EXPECT_NE(end.message().find(" of "), std::string::npos) << end.message();
      }
    }
  }
}

TEST(Golden, EveryFlippedHeaderBitIsFound) {
  const Bytes good = contents(Folder / "good/request.bin");
  for (size_t bit = 0; bit < 8 * FrameHeaderSize; ++bit) {
    Bytes bytes = good;
    bytes[bit / 8] ^= uint8_t(1) << (bit % 8);
    Decoder decoder;
    EXPECT_EQ(readAll(bytes, 4096, decoder).code(), Code::Protocol) << "bit " << bit;
    EXPECT_EQ(decoder.frames, 0);
  }
}

TEST(Crc32c, AgreesWithRfc3720) {
  const Bytes zeros(32, 0), ones(32, 0xff);
  for (const auto crc : {crc32c, crc32cByTables}) {
    EXPECT_EQ(crc(zeros.data(), 32), 0x8a9136aau);
    EXPECT_EQ(crc(ones.data(), 32), 0x62a8ab43u);
    EXPECT_EQ(crc(reinterpret_cast<const uint8_t *>("123456789"), 9), 0xe3069283u);
  }
}

} // namespace
} // namespace mlbridge
