// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// relay URI SOCKET: every connection to the socket becomes one to a server, byte for byte, over
// whatever transport; so an attacker is written once. What is not read is not taken either.
#include "transport/transport.h"

#include <cstdio>
#include <cstring>
#include <poll.h>
#include <string>
#include <sys/socket.h>
#include <sys/un.h>
#include <thread>
#include <vector>

using namespace mlbridge;

namespace {

constexpr size_t Chunk = 64 * 1024;

/// Bytes on their way in one direction.
struct Direction {
  std::vector<uint8_t> bytes = std::vector<uint8_t>(Chunk);
  size_t begin = 0, end = 0;
  bool isEmpty() const { return begin == end; }
};

void relay(Descriptor local, const std::string &address) {
  const Expected<Uri> uri = Uri::parse(address);
  Expected<std::unique_ptr<Channel>> connection =
      (*transportFor(uri->scheme))->connect(*uri, Deadline::after(std::chrono::seconds(20)));
  if (!connection)
    return;
  Channel &channel = **connection;
  Direction there, back;
  bool serverEnded = false;
  for (int idle = 0;;) {
    bool moved = false;
    if (there.isEmpty()) {
      const ssize_t n = ::recv(local.get(), there.bytes.data(), Chunk, MSG_DONTWAIT);
      if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR))
        return;
      there.begin = 0;
      there.end = n > 0 ? static_cast<size_t>(n) : 0;
    }
    if (!there.isEmpty()) {
      const iovec part{there.bytes.data() + there.begin, there.end - there.begin};
      const Expected<size_t> n = channel.write(&part, 1);
      serverEnded |= !n;
      if (n) {
        there.begin += *n;
        moved |= *n != 0;
      } else {
        there.begin = there.end;
      }
    }
    if (back.isEmpty()) {
      const Expected<size_t> n = channel.read(back.bytes.data(), Chunk);
      if (!n)
        return; // all that it said has been passed on
      back.begin = 0;
      back.end = *n;
    }
    if (!back.isEmpty()) {
      const ssize_t n = ::send(local.get(), back.bytes.data() + back.begin, back.end - back.begin,
                               MSG_DONTWAIT | MSG_NOSIGNAL);
      if (n < 0 && (serverEnded || (errno != EAGAIN && errno != EINTR)))
        return; // gone, or told of the end by it: it doesn't read
      back.begin += n > 0 ? static_cast<size_t>(n) : 0;
      moved |= n > 0;
    }
    idle = moved ? 0 : idle + 1;
    if (idle > 4)
      (void)channel.wait({back.isEmpty(), !there.isEmpty() && !serverEnded},
                         Deadline::after(std::chrono::milliseconds(idle > 100 ? 20 : 1)));
  }
}

} // namespace

int main(int argc, char **argv) {
  if (argc != 3)
    return 2;
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::strncpy(address.sun_path, argv[2], sizeof address.sun_path - 1);
  const Descriptor listener(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (::bind(listener.get(), reinterpret_cast<sockaddr *>(&address), sizeof address) != 0 ||
      ::listen(listener.get(), 1024) != 0)
    return 1;
  std::puts("ready");
  std::fflush(stdout);
  while (true) {
    Descriptor local(::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
    if (!local)
      return 1;
    std::thread(relay, std::move(local), std::string(argv[1])).detach();
  }
}
