// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// For tests of the compiler's side: servers that play a script, with plain frames.
#ifndef MLBRIDGE_TESTING_FAKE_SERVER_H
#define MLBRIDGE_TESTING_FAKE_SERVER_H

#include "conversation/frame.h"
#include "conversation/messages.h"
#include "testing/server_thread.h"
#include "transport/builtin.h"

#include <mlbridge/model.h>

#include <gtest/gtest.h>

#include <algorithm>
#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

namespace mlbridge::testing {

using Bytes = std::vector<uint8_t>;

inline const Signature OneNumber{{TensorSpec::of<int64_t>("x")}, {TensorSpec::of<int64_t>("y")}};

/// The server's end of one conversation, blocking.
struct Peer {
  int in = -1, out = -1;
  std::unique_ptr<Channel> channel; ///< instead, of what is no file
  Listener *driven = nullptr;       ///< of a channel that needs it

  void write(const Bytes &bytes) const {
    size_t at = 0;
    while (at < bytes.size()) {
      if (channel) {
        const iovec part{const_cast<uint8_t *>(bytes.data()) + at, bytes.size() - at};
        Expected<size_t> taken = channel->write(&part, 1);
        if (!taken || (*taken == 0 && !await({false, true})))
          return;
        at += *taken;
        continue;
      }
      const ssize_t n = ::send(out, bytes.data() + at, bytes.size() - at, MSG_NOSIGNAL);
      const ssize_t m =
          n < 0 && errno == ENOTSOCK ? ::write(out, bytes.data() + at, bytes.size() - at) : n;
      if (m <= 0)
        return;
      at += static_cast<size_t>(m);
    }
  }
  /// The next frame, or nothing at the end.
  std::optional<std::pair<FrameHeader, Bytes>> read() const {
    uint8_t header[FrameHeaderSize];
    if (!fill(header, sizeof header))
      return {};
    Expected<FrameHeader> decoded = decodeFrameHeader(header);
    if (!decoded)
      return {};
    Bytes payload(decoded->length);
    if (!fill(payload.data(), payload.size()))
      return {};
    return std::pair(*decoded, payload);
  }
  /// Reads until the compiler is gone.
  void drain() const {
    uint8_t waste[4096];
    while (readSome(waste, sizeof waste)) {
    }
  }
  bool hasInput() const {
    if (channel)
      return channel->look({true, false}).read;
    pollfd fd{in, POLLIN, 0};
    return ::poll(&fd, 1, 0) != 0;
  }

private:
  bool await(Readiness wanted) const {
    if (!driven)
      return bool(channel->wait(wanted, Deadline::never()));
    driven->drive(Deadline::after(std::chrono::milliseconds(5)));
    return true;
  }
  bool fill(uint8_t *to, size_t size) const {
    for (size_t at = 0; at < size;) {
      const size_t n = readSome(to + at, size - at);
      if (n == 0)
        return false;
      at += n;
    }
    return true;
  }
  /// 0 at the end.
  size_t readSome(uint8_t *to, size_t size) const {
    if (!channel)
      return static_cast<size_t>(std::max<ssize_t>(::read(in, to, size), 0));
    while (true) {
      Expected<size_t> n = channel->read(to, size);
      if (!n || *n)
        return n ? *n : 0;
      (void)await({true, false});
    }
  }
};

inline Bytes frameOf(FrameKind kind, const Buffer &payload, uint32_t stream = 0,
                     uint64_t request = 0, uint16_t flags = 0) {
  FrameHeader header;
  header.kind = kind;
  header.stream = stream;
  header.request = request;
  header.flags = flags;
  header.length = payload.size();
  Bytes bytes(FrameHeaderSize);
  encode(header, bytes.data());
  bytes.insert(bytes.end(), payload.data(), payload.data() + payload.size());
  return bytes;
}

inline Bytes welcomeTo(const Bytes &helloPayload, Welcome welcome = {}) {
  Expected<Hello> hello = decode<Hello>({helloPayload.data(), helloPayload.size()});
  welcome.nonce = hello->nonce;
  if (welcome.maxMessage == 0)
    welcome.maxMessage = 1 << 20;
  welcome.serdes = hello->serdes;
  if (!welcome.signature)
    welcome.signature = OneNumber;
  Buffer payload;
  EXPECT_TRUE(encode(welcome, payload));
  return frameOf(FrameKind::Welcome, payload);
}

inline Bytes replyOf(int64_t value, uint64_t request, uint32_t stream = 1) {
  Buffer payload;
  EXPECT_TRUE(payload.append(&value, sizeof value));
  return frameOf(FrameKind::Reply, payload, stream, request);
}

using Script = std::function<void(const Peer &)>;

/// Accepts one compiler and plays the script, over a socket, FIFOs or shared memory.
class FakeServer {
public:
  FakeServer(const std::string &scheme, Script script) : scheme_(scheme) {
    const std::string path = folder_ / "s";
    uri_ = scheme + ":" + path;
    if (scheme == "shm") {
      Uri uri;
      uri.place = path;
      shm_ = std::move(*shmTransport().listen(uri));
      listening_ = shm_->descriptor();
    } else if (scheme == "unix") {
      sockaddr_un address{};
      address.sun_family = AF_UNIX;
      path.copy(address.sun_path, sizeof address.sun_path - 1);
      listening_ = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
      EXPECT_EQ(::bind(listening_, reinterpret_cast<sockaddr *>(&address), sizeof address), 0);
      EXPECT_EQ(::listen(listening_, 4), 0);
    } else {
      EXPECT_EQ(::mkfifo((path + ".in").c_str(), 0600), 0);
      EXPECT_EQ(::mkfifo((path + ".out").c_str(), 0600), 0);
      listening_ = ::open((path + ".out").c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    }
    thread_ = std::thread([this, path, script = std::move(script)] {
      Peer peer;
      if (scheme_ == "shm") {
        pollfd fd{listening_, POLLIN, 0};
        ::poll(&fd, 1, -1);
        peer.channel = std::move(*shm_->accept());
        peer.out = peer.channel->readDescriptor();
        shm_.reset();
        return script(peer);
      }
      if (scheme_ == "unix") {
        peer.in = peer.out = ::accept4(listening_, nullptr, nullptr, SOCK_CLOEXEC);
        ::close(listening_); // a second connection is refused
      } else {
        pollfd fd{listening_, POLLIN, 0};
        ::poll(&fd, 1, -1);
        ::fcntl(listening_, F_SETFL, 0);
        peer.in = listening_;
        peer.out = ::open((path + ".in").c_str(), O_WRONLY | O_CLOEXEC);
      }
      script(peer);
      ::close(peer.out);
      if (peer.in != peer.out)
        ::close(peer.in);
    });
  }
  ~FakeServer() { thread_.join(); }
  const std::string &uri() const { return uri_; }

private:
  const std::string scheme_;
  TemporaryFolder folder_;
  std::string uri_;
  int listening_ = -1;
  std::unique_ptr<Listener> shm_;
  std::thread thread_;
};

/// Accepts one compiler after the other, over any transport.
class Listening {
public:
  explicit Listening(const std::string &scheme) {
    Uri uri;
    uri.scheme = scheme;
    uri.place = scheme == "grpc" ? "localhost:0" : folder_ / "s";
    Expected<const Transport *> transport = transportFor(scheme);
    EXPECT_TRUE(transport) << transport.status().toString();
    Expected<std::unique_ptr<Listener>> listener = (*transport)->listen(uri);
    EXPECT_TRUE(listener) << listener.status().toString();
    listener_ = std::move(*listener);
    uri_ = scheme + ":" + (listener_->place().empty() ? uri.place : listener_->place());
  }
  const std::string &uri() const { return uri_; }
  Peer accept() {
    while (true) {
      Peer peer;
      if (Expected<std::unique_ptr<Channel>> channel = listener_->accept(); channel && *channel) {
        peer.channel = std::move(*channel);
        peer.driven = listener_->isDriven() ? listener_.get() : nullptr;
        return peer;
      }
      pollfd fd{listener_->descriptor(), POLLIN, 0};
      if (listener_->isDriven())
        listener_->drive(Deadline::after(std::chrono::milliseconds(5)));
      else
        ::poll(&fd, 1, -1);
    }
  }
  /// And shakes hands.
  Peer welcome(const Welcome &welcome = {}) {
    Peer peer = accept();
    if (const auto hello = peer.read())
      peer.write(welcomeTo(hello->second, welcome));
    return peer;
  }

private:
  TemporaryFolder folder_;
  std::string uri_;
  std::unique_ptr<Listener> listener_;
};

/// Handshake and the first request, then what the test is about.
inline Script afterFirstRequest(Script rest) {
  return [rest = std::move(rest)](const Peer &peer) {
    const auto hello = peer.read();
    if (!hello)
      return;
    peer.write(welcomeTo(hello->second));
    while (true) {
      const auto frame = peer.read();
      if (!frame)
        return;
      if (frame->first.kind == FrameKind::Request)
        break;
    }
    rest(peer);
  };
}

} // namespace mlbridge::testing

#endif
