// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The floor of the round trip, the compiler's side: the same numbers through the same kind of
// channel, written to be fast, with nothing of the library: no handshake, no deadlines, no checks.
//
//   floor-channel sweep|small pipe|unix|shm raw|json PATH [blocks]
//
// Over shared memory there are raw numbers only, in place. Otherwise a message is a length of 8
// bytes and the payload: raw numbers, or JSON made with std::to_chars; the answer is read with
// simdjson. A side that waits yields the processor for a moment before it sleeps, as the library
// does, unless it blocks at once. Standard input and output as for round-trip-client. The server is
// server.py.
#include "../round-trip/expected.h"

#include <algorithm>
#include <atomic>
#include <charconv>
#include <cstring>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <simdjson.h>
#include <string>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <unistd.h>

namespace {

using bench::Clock;
using bench::fail;

int in = -1, out = -1;
bool isPipe = false, blocks = false;
simdjson::ondemand::parser parser;
std::vector<char> text(static_cast<size_t>(roundtrip::LargestSize) * 16 + 64);

int connected(const std::string &path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  path.copy(address.sun_path, sizeof address.sun_path - 1);
  const int socket = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (::connect(socket, reinterpret_cast<sockaddr *>(&address), sizeof address) != 0)
    fail("connect");
  return socket;
}

/// One message there, one answer back, in place. Each side spins if that has paid off lately, then
/// yields for a moment, then sleeps on an eventfd.
class Shared {
public:
  static constexpr size_t Size = 1 << 20, AnswerAt = 2048, PayloadAt = 4096;

  explicit Shared(const std::string &path) {
    const int socket = connected(path);
    const int memory = ::memfd_create("floor", MFD_CLOEXEC);
    serverBell_ = ::eventfd(0, EFD_CLOEXEC);
    bell_ = ::eventfd(0, EFD_CLOEXEC);
    if (::ftruncate(memory, Size) != 0)
      fail("memory");
    bytes_ = static_cast<uint8_t *>(
        ::mmap(nullptr, Size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, memory, 0));
    const int descriptors[3] = {memory, serverBell_, bell_};
    char text = 0;
    iovec part{&text, 1};
    alignas(cmsghdr) char control[CMSG_SPACE(sizeof descriptors)] = {};
    msghdr message{};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    message.msg_control = control;
    message.msg_controllen = sizeof control;
    cmsghdr *rights = CMSG_FIRSTHDR(&message);
    rights->cmsg_level = SOL_SOCKET;
    rights->cmsg_type = SCM_RIGHTS;
    rights->cmsg_len = CMSG_LEN(sizeof descriptors);
    std::memcpy(CMSG_DATA(rights), descriptors, sizeof descriptors);
    if (bytes_ == MAP_FAILED || ::sendmsg(socket, &message, 0) != 1)
      fail("shared memory");
  }

  uint8_t *payload() { return bytes_ + PayloadAt; }

  /// Sends what is in the payload and waits for the answer; 0 ends the server.
  const uint8_t *exchange(uint64_t size) {
    at(1).store(size, std::memory_order_relaxed);
    at(0).store(++number_);
    if (at(8).load() && at(8).exchange(0))
      ::eventfd_write(serverBell_, 1);
    if (waitsWithoutSpin_ > 0) {
      --waitsWithoutSpin_;
    } else {
      const Clock::time_point end = Clock::now() + std::chrono::microseconds(20);
      bool isThere = false;
      while (!isThere && Clock::now() < end)
        for (int i = 0; i < 16 && !isThere; ++i)
          isThere = at(16).load(std::memory_order_acquire) == number_;
      spinsInVain_ = isThere ? 0 : spinsInVain_ < 10 ? spinsInVain_ + 1 : 10;
      waitsWithoutSpin_ = spinsInVain_ < 3 ? 0 : 1 << spinsInVain_;
    }
    const Clock::time_point end = Clock::now() + std::chrono::microseconds(30);
    while (at(16).load(std::memory_order_acquire) != number_) {
      ::sched_yield();
      if (Clock::now() < end)
        continue;
      at(24).store(1);
      if (at(16).load() == number_)
        break;
      // Python cannot order its store before its look, so a bell may be missed.
      pollfd bell{bell_, POLLIN, 0};
      eventfd_t waste;
      if (::poll(&bell, 1, 1) > 0)
        ::eventfd_read(bell_, &waste);
    }
    return bytes_ + AnswerAt;
  }

private:
  std::atomic<uint64_t> &at(size_t word) {
    return reinterpret_cast<std::atomic<uint64_t> *>(bytes_)[word];
  }

  uint8_t *bytes_ = nullptr;
  int serverBell_ = -1, bell_ = -1;
  uint64_t number_ = 0;
  int spinsInVain_ = 0, waitsWithoutSpin_ = 0;
};

void connectTo(const std::string &path) {
  if (isPipe) {
    out = ::open((path + ".out").c_str(), O_WRONLY | O_CLOEXEC);
    in = ::open((path + ".in").c_str(), O_RDONLY | O_CLOEXEC);
    ::fcntl(out, F_SETPIPE_SZ, 1 << 20);
    ::fcntl(in, F_SETPIPE_SZ, 1 << 20);
    if (!blocks)
      ::fcntl(in, F_SETFL, O_NONBLOCK);
  } else {
    in = out = connected(path);
    const int size = 1 << 20;
    ::setsockopt(out, SOL_SOCKET, SO_SNDBUF, &size, sizeof size);
  }
  if (in < 0 || out < 0)
    fail("open");
}

void send(const void *data, uint64_t size) {
  iovec parts[2] = {{&size, sizeof size}, {const_cast<void *>(data), size}};
  // Blocks until all is written.
  if (::writev(out, parts, 2) != static_cast<ssize_t>(sizeof size + size))
    fail("write");
}

alignas(64) char answer[4096];

ssize_t readSome(char *to, size_t size) {
  if (blocks)
    return ::read(in, to, size);
  const Clock::time_point end = Clock::now() + std::chrono::microseconds(30);
  while (true) {
    ::sched_yield();
    const ssize_t n = isPipe ? ::read(in, to, size) : ::recv(in, to, size, MSG_DONTWAIT);
    if (n >= 0 || errno != EAGAIN)
      return n;
    pollfd ready{in, POLLIN, 0};
    if (Clock::now() >= end)
      ::poll(&ready, 1, -1);
  }
}

/// The payload of a short answer.
size_t receive() {
  size_t have = 0;
  uint64_t size = 0;
  while (have < sizeof size || have < sizeof size + size) {
    const ssize_t n = readSome(answer + have, 1024 - have);
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
  auto value = document["y"].at(0);
  if constexpr (std::is_integral_v<T>)
    return value.get_int64();
  else
    return static_cast<T>(double(value.get_double()));
}

size_t writeJson(const float *x, size_t count, char *to) {
  char *at = std::copy_n("{\"x\":[", 6, to);
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
  if (count != 5 && count != 6)
    fail("usage: floor-channel sweep|small pipe|unix|shm raw|json PATH [blocks]");
  isPipe = std::strcmp(arguments[2], "pipe") == 0;
  blocks = count == 6;
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
  connectTo(arguments[4]);
  if (sweep)
    roundtrip::serveSweep([&](const float *x, size_t size) { return ask<float>(json, x, size); });
  else
    roundtrip::serveSmall(small, [&] { return ask<int64_t>(json, small, roundtrip::SmallSize); });
  return 0;
}
