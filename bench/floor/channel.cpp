// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The floor of the round trip, the compiler's side: the same numbers through the same kind of
// channel, as fast as that can be written, with nothing of the library. No handshake, no deadlines,
// no checks.
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
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <optional>
#include <simdjson.h>
#include <string>
#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <unistd.h>

namespace {

using Clock = std::chrono::steady_clock;

[[noreturn]] void fail(const char *why) {
  std::perror(why);
  std::exit(1);
}

int in = -1, out = -1;

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

template <typename T> T answered(bool json, simdjson::ondemand::parser &parser) {
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

} // namespace

int main(int count, char **arguments) {
  if (count != 5)
    fail("usage: floor-channel sweep|small pipe|unix|shm raw|json PATH");
  const bool sweep = std::strcmp(arguments[1], "sweep") == 0;
  const bool json = std::strcmp(arguments[3], "json") == 0;
  std::optional<Shared> shared;
  if (std::strcmp(arguments[2], "shm") == 0)
    shared.emplace(arguments[4]);
  else
    connectTo(std::strcmp(arguments[2], "pipe") == 0, arguments[4]);
  const std::vector<float> x = roundtrip::sweepInput();
  const std::vector<double> expected = roundtrip::sweepAnswers();
  const std::vector<int64_t> sizes = roundtrip::sweepSizes();
  std::vector<char> text(static_cast<size_t>(roundtrip::LargestSize) * 16 + 64);
  simdjson::ondemand::parser parser;
  float small[roundtrip::SmallSize];
  int64_t query = 0;
  std::puts("ready");
  std::fflush(stdout);
  char line[64];
  while (std::fgets(line, sizeof line, stdin)) {
    const Clock::time_point start = Clock::now();
    for (long passes = std::strtol(line, nullptr, 10); passes > 0; --passes) {
      if (sweep) {
        for (const int64_t size : sizes) {
          const size_t n = static_cast<size_t>(size);
          if (shared) {
            std::memcpy(shared->payload(), x.data(), n * sizeof(float));
            float answered;
            std::memcpy(&answered, shared->exchange(n * sizeof(float)), sizeof answered);
            if (!roundtrip::isClose(answered, expected[n]))
              fail("wrong answer");
            continue;
          }
          if (json)
            send(text.data(), writeJson(x.data(), n, text.data()));
          else
            send(x.data(), n * sizeof(float));
          if (!roundtrip::isClose(answered<float>(json, parser), expected[n]))
            fail("wrong answer");
        }
        continue;
      }
      if (shared) {
        roundtrip::fillSmall(reinterpret_cast<float *>(shared->payload()), query);
        int64_t answered;
        std::memcpy(&answered, shared->exchange(sizeof small), sizeof answered);
        if (answered != roundtrip::smallAnswer(query++))
          fail("wrong answer");
        continue;
      }
      roundtrip::fillSmall(small, query);
      if (json)
        send(text.data(), writeJson(small, roundtrip::SmallSize, text.data()));
      else
        send(small, sizeof small);
      if (answered<int64_t>(json, parser) != roundtrip::smallAnswer(query))
        fail("wrong answer");
      ++query;
    }
    std::printf("%lld\n",
                static_cast<long long>(std::chrono::nanoseconds(Clock::now() - start).count()));
    std::fflush(stdout);
  }
  if (shared)
    shared->exchange(0);
  return 0;
}
