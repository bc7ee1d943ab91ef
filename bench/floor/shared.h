// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The floor over shared memory, the compiler's side: one message there, one answer back, in place.
// Each side spins if that has paid off lately, then yields for a moment, then sleeps on an eventfd.
#ifndef MLBRIDGE_BENCH_FLOOR_SHARED_H
#define MLBRIDGE_BENCH_FLOOR_SHARED_H

#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <poll.h>
#include <sched.h>
#include <string>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

class Shared {
public:
  static constexpr size_t Size = 1 << 20, AnswerAt = 2048, PayloadAt = 4096;

  explicit Shared(const std::string &path) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    path.copy(address.sun_path, sizeof address.sun_path - 1);
    const int socket = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const int memory = ::memfd_create("floor", MFD_CLOEXEC);
    serverBell_ = ::eventfd(0, EFD_CLOEXEC);
    bell_ = ::eventfd(0, EFD_CLOEXEC);
    if (::connect(socket, reinterpret_cast<sockaddr *>(&address), sizeof address) != 0 ||
        ::ftruncate(memory, Size) != 0)
      std::exit(1);
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
      std::exit(1);
  }

  uint8_t *payload() { return bytes_ + PayloadAt; }

  /// Sends what is in the payload and waits for the answer; 0 ends the server.
  const uint8_t *exchange(uint64_t size) {
    at(1).store(size, std::memory_order_relaxed);
    at(0).store(++number_);
    if (at(8).load() && at(8).exchange(0))
      ::eventfd_write(serverBell_, 1);
    using Clock = std::chrono::steady_clock;
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

#endif
