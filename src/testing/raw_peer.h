// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// For tests: a peer that says what it likes, over any transport.
#ifndef MLBRIDGE_TESTING_RAW_PEER_H
#define MLBRIDGE_TESTING_RAW_PEER_H

#include "conversation/frame.h"
#include "conversation/messages.h"
#include "testing/sum_server.h"
#include "transport/transport.h"

namespace mlbridge::testing {

class RawPeer final : private FrameReader::Target {
public:
  struct Frame {
    FrameHeader header;
    std::string payload;
  };

  explicit RawPeer(const std::string &uri) {
    const Expected<Uri> parsed = Uri::parse(uri);
    Expected<std::unique_ptr<Channel>> channel =
        (*transportFor(parsed->scheme))
            ->connect(*parsed, Deadline::after(std::chrono::seconds(20)));
    EXPECT_TRUE(channel) << channel.status().toString();
    if (channel)
      channel_ = std::move(*channel);
  }

  static void append(Buffer &to, FrameKind kind, uint32_t stream, uint64_t request,
                     Span<const uint8_t> payload = {}, uint64_t stated = UINT64_MAX) {
    FrameHeader header;
    header.kind = kind;
    header.stream = stream;
    header.request = request;
    header.length = stated == UINT64_MAX ? payload.size() : stated;
    const size_t at = to.size();
    EXPECT_TRUE(to.resize(at + FrameHeaderSize));
    encode(header, to.data() + at);
    EXPECT_TRUE(to.append(payload.data(), payload.size()));
  }
  template <typename Message>
  static void appendMessage(Buffer &to, FrameKind kind, uint32_t stream, const Message &message) {
    Buffer payload;
    EXPECT_TRUE(encode(message, payload));
    append(to, kind, stream, 0, payload.span());
  }
  static void appendHello(Buffer &to) {
    Hello hello;
    hello.serdes = "bitstream";
    appendMessage(to, FrameKind::Hello, 0, hello);
  }
  static void appendOpen(Buffer &to, uint32_t stream, const Signature &signature,
                         const std::string &unit = "") {
    OpenStream open;
    open.signature = signature;
    open.context.unit = unit;
    appendMessage(to, FrameKind::OpenStream, stream, open);
  }

  /// Sends what the server takes of it at once; `from` is the first byte that it has not taken yet.
  bool offer(const Buffer &bytes, size_t &from) {
    while (from < bytes.size()) {
      const iovec part{const_cast<uint8_t *>(bytes.data()) + from, bytes.size() - from};
      const Expected<size_t> n = channel_->write(&part, 1);
      if (!n)
        return false;
      if (*n == 0)
        return true;
      from += *n;
    }
    return true;
  }
  /// All of it, while the server runs on another thread or what is sent fits into the channel.
  bool send(const Buffer &bytes) {
    size_t from = 0;
    while (offer(bytes, from) && from < bytes.size())
      (void)channel_->wait({false, true}, Deadline::after(std::chrono::milliseconds(20)));
    return from == bytes.size();
  }
  /// Reads what is there; whether the conversation goes on.
  bool listen() {
    bool progress = true;
    while (!ended_ && progress)
      ended_ = !reader_.pump(*channel_, *this, progress);
    return !ended_;
  }
  /// Waits for a frame of this kind, or the end (null).
  const Frame *await(FrameKind kind) {
    const Deadline deadline = Deadline::after(std::chrono::seconds(20));
    while (true) {
      const bool goesOn = listen();
      for (; seen_ < frames.size(); ++seen_)
        if (frames[seen_].header.kind == kind)
          return &frames[seen_++];
      if (!goesOn || deadline.hasPassed())
        return nullptr;
      (void)channel_->wait({true, false}, Deadline::after(std::chrono::milliseconds(20)));
    }
  }
  size_t count(FrameKind kind) const {
    size_t found = 0;
    for (const Frame &frame : frames)
      found += frame.header.kind == kind;
    return found;
  }
  /// The server's error for the whole connection; Ok if there is none.
  Status verdict() {
    for (const Frame &frame : frames)
      if (frame.header.kind == FrameKind::Error && frame.header.stream == 0)
        return decodeError(
            {reinterpret_cast<const uint8_t *>(frame.payload.data()), frame.payload.size()});
    return Status();
  }
  bool hasEnded() const { return ended_; }
  void hangUp() { channel_.reset(); }

  std::vector<Frame> frames; ///< that came

private:
  Expected<Buffer *> payloadOf(const FrameHeader &) override {
    payload_.clear();
    return &payload_;
  }
  Status frame(const FrameHeader &header) override {
    frames.push_back(
        {header, std::string(reinterpret_cast<const char *>(payload_.data()), payload_.size())});
    return Status();
  }

  std::unique_ptr<Channel> channel_;
  FrameReader reader_;
  Buffer payload_;
  size_t seen_ = 0;
  bool ended_ = false;
};

} // namespace mlbridge::testing

#endif
