// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The floor of the round trip, the compiler's side: the same numbers through the same kind of
// channel, written to be fast, with nothing of the library: no handshake, no deadlines, no checks.
//
//   floor-channel sweep|small pipe|unix|shm raw|json PATH
//
// Over shared memory there are raw numbers only, in place (shared.h). Otherwise a message is a
// length of 8 bytes and the payload: raw numbers, or JSON made with std::to_chars; the answer is
// read with simdjson. Standard input and output as for round-trip-client. The server is
// channel_server.py.
#include "../round-trip/expected.h"
#include "shared.h"

#include <charconv>
#include <cstring>
#include <fcntl.h>
#include <simdjson.h>
#include <string>
#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <unistd.h>

namespace {

using bench::fail;

int in = -1, out = -1;
simdjson::ondemand::parser parser;
std::vector<char> text(static_cast<size_t>(roundtrip::LargestSize) * 16 + 64);

void connectTo(bool pipe, const std::string &path) {
  if (pipe) {
    out = ::open((path + ".out").c_str(), O_WRONLY | O_CLOEXEC);
    in = ::open((path + ".in").c_str(), O_RDONLY | O_CLOEXEC);
    ::fcntl(out, F_SETPIPE_SZ, 1 << 20);
    ::fcntl(in, F_SETPIPE_SZ, 1 << 20);
  } else {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    path.copy(address.sun_path, sizeof address.sun_path - 1);
    in = out = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const int size = 1 << 20;
    ::setsockopt(out, SOL_SOCKET, SO_SNDBUF, &size, sizeof size);
    if (::connect(out, reinterpret_cast<sockaddr *>(&address), sizeof address) != 0)
      fail("connect");
  }
  if (in < 0 || out < 0)
    fail("open");
}

void send(const void *data, uint64_t size) {
  iovec parts[2] = {{&size, sizeof size}, {const_cast<void *>(data), size}};
  iovec *at = parts;
  int count = 2;
  for (size_t left = sizeof size + size; left;) {
    const ssize_t n = ::writev(out, at, count);
    if (n <= 0)
      fail("write");
    left -= static_cast<size_t>(n);
    for (size_t skip = static_cast<size_t>(n); skip;) {
      const size_t step = std::min(skip, at->iov_len);
      at->iov_base = static_cast<char *>(at->iov_base) + step;
      at->iov_len -= step;
      skip -= step;
      if (at->iov_len == 0 && count > 1) {
        ++at;
        --count;
      }
    }
  }
}

alignas(64) char answer[4096];

/// The payload of a short answer.
size_t receive() {
  size_t have = 0;
  uint64_t size = 0;
  while (have < sizeof size || have < sizeof size + size) {
    const ssize_t n = ::read(in, answer + have, 1024 - have);
    if (n <= 0)
      fail("read");
    have += static_cast<size_t>(n);
    if (have >= sizeof size)
      std::memcpy(&size, answer, sizeof size);
  }
  return size;
}

template <typename T> T answered(bool json) {
  const size_t size = receive();
  if (!json) {
    T value;
    std::memcpy(&value, answer + 8, sizeof value);
    return value;
  }
  auto document = parser.iterate(answer + 8, size, sizeof answer - 8);
  simdjson::ondemand::array values = document["y"].get_array();
  for (auto value : values) {
    if constexpr (std::is_integral_v<T>)
      return value.get_int64();
    else
      return static_cast<T>(double(value.get_double()));
  }
  fail("answer");
}

size_t writeJson(const float *x, size_t count, char *to) {
  char *at = to;
  std::memcpy(at, "{\"x\":[", 6);
  at += 6;
  for (size_t i = 0; i < count; ++i) {
    at = std::to_chars(at, at + 32, x[i]).ptr;
    *at++ = ',';
  }
  at[-1] = ']';
  *at++ = '}';
  return static_cast<size_t>(at - to);
}

template <typename T> T ask(bool json, const float *x, size_t count) {
  if (json)
    send(text.data(), writeJson(x, count, text.data()));
  else
    send(x, count * sizeof(float));
  return answered<T>(json);
}

template <typename T> T ask(Shared &shared, size_t bytes) {
  T value;
  std::memcpy(&value, shared.exchange(bytes), sizeof value);
  return value;
}

} // namespace

int main(int count, char **arguments) {
  if (count != 5)
    fail("usage: floor-channel sweep|small pipe|unix|shm raw|json PATH");
  const bool sweep = std::strcmp(arguments[1], "sweep") == 0;
  const bool json = std::strcmp(arguments[3], "json") == 0;
  float small[roundtrip::SmallSize];
  if (std::strcmp(arguments[2], "shm") == 0) {
    Shared shared(arguments[4]);
    float *const payload = reinterpret_cast<float *>(shared.payload());
    if (sweep)
      roundtrip::serveSweep([&](const float *x, size_t size) {
        std::memcpy(payload, x, size * sizeof(float));
        return ask<float>(shared, size * sizeof(float));
      });
    else
      roundtrip::serveSmall(payload, [&] { return ask<int64_t>(shared, sizeof small); });
    shared.exchange(0);
    return 0;
  }
  connectTo(std::strcmp(arguments[2], "pipe") == 0, arguments[4]);
  if (sweep)
    roundtrip::serveSweep([&](const float *x, size_t size) { return ask<float>(json, x, size); });
  else
    roundtrip::serveSmall(small, [&] { return ask<int64_t>(json, small, roundtrip::SmallSize); });
  return 0;
}
