// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "transport/shm/memory.h"

#include "core/message.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <linux/magic.h>
#include <mutex>
#include <pthread.h>
#include <set>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <unistd.h>

namespace mlbridge {

namespace {

constexpr char Magic[8] = {'M', 'L', 'B', 'S', 'H', 'M', 'E', 'M'};
constexpr uint16_t Major = 1, Minor = 0;
constexpr uint64_t MostSize = uint64_t(1) << 40;
constexpr int Seals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;

/// An announcement as it stands on the wire.
struct Wire {
  char magic[sizeof Magic];
  uint16_t major, minor;
  uint32_t unused;
  uint64_t size, ring;
};
static_assert(sizeof(Wire) == SharedMemory::Announcement::Size);

template <typename... Parts> Status unusable(const Parts &...why) {
  return makeError(Code::Protocol, "shared memory: ", why...);
}

/// A child process must not write into what its parent shares with a server: in the child every
/// such memory becomes a private copy at the same address.
class ForkedApart {
public:
  static void add(SharedMemory *memory) {
    static const int once =
        ::pthread_atfork([] { all().mutex.lock(); }, [] { all().mutex.unlock(); }, separate);
    (void)once;
    const std::lock_guard<std::mutex> lock(all().mutex);
    all().memories.insert(memory);
  }
  static void remove(SharedMemory *memory) {
    const std::lock_guard<std::mutex> lock(all().mutex);
    all().memories.erase(memory);
  }

private:
  struct All {
    std::mutex mutex;
    std::set<SharedMemory *> memories;
  };
  static All &all() {
    static All &instance = *new All; // threads may run until the process has ended
    return instance;
  }
  static void separate() {
    for (SharedMemory *memory : all().memories)
      (void)!::mmap(memory->bytes(), memory->size(), PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_FIXED | MAP_NORESERVE, memory->descriptor(), 0);
    all().mutex.unlock();
  }
};

} // namespace

void SharedMemory::Announcement::encode(uint8_t *to) const {
  Wire wire{{}, Major, Minor, 0, size, ring};
  std::memcpy(wire.magic, Magic, sizeof Magic);
  std::memcpy(to, &wire, sizeof wire);
}

Expected<SharedMemory::Announcement> SharedMemory::Announcement::decode(const uint8_t *from,
                                                                        size_t size) {
  Wire wire;
  if (size < sizeof wire || std::memcmp(from, Magic, sizeof Magic) != 0)
    return unusable("the compiler did not hand over its memory first; is its URI shm:PATH too?");
  std::memcpy(&wire, from, sizeof wire);
  const uint16_t major = wire.major;
  const Announcement said{wire.size, wire.ring};
  if (major != Major)
    return unusable("the compiler uses version ", major, " of its layout, the server version ",
                    Major);
  if (said.ring < LeastRing || said.ring > MostRing || (said.ring & (said.ring - 1)) != 0)
    return unusable("a ring of ", said.ring, " bytes; expected a power of two, ", LeastRing, " to ",
                    MostRing);
  if (said.size < ControlSize + 2 * said.ring || said.size > MostSize)
    return unusable("the compiler states ", said.size, " bytes, two rings of ", said.ring, " take ",
                    ControlSize + 2 * said.ring);
  return said;
}

Expected<std::shared_ptr<SharedMemory>> SharedMemory::map(Descriptor memory,
                                                          const Announcement &said, size_t mapped) {
  void *bytes = ::mmap(nullptr, mapped, PROT_READ | PROT_WRITE, MAP_SHARED, memory.get(), 0);
  if (bytes == MAP_FAILED)
    return Status(errno == EPERM ? Code::Protocol : Code::LimitExceeded,
                  describeErrno("shared memory: map " + std::to_string(mapped) + " bytes", errno));
  return std::shared_ptr<SharedMemory>(
      new SharedMemory(std::move(memory), static_cast<uint8_t *>(bytes), mapped, said));
}

Expected<std::shared_ptr<SharedMemory>> SharedMemory::make(size_t arena) {
  constexpr size_t Rings = ControlSize + 2 * RingSize;
  const size_t size = Rings + arena;
  rlimit limit{};
  // The kernel would send SIGXFSZ.
  if (::getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur < size)
    return makeError(Code::LimitExceeded, "shared memory: files may have ", limit.rlim_cur,
                     " bytes (ulimit -f), ", size, " are needed");
  Descriptor memory(::memfd_create("mlbridge", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  // The rings are allocated at once: later nothing but SIGBUS would say that there is no memory.
  if (!memory || ::ftruncate(memory.get(), static_cast<off_t>(size)) != 0 ||
      ::posix_fallocate(memory.get(), 0, Rings) != 0 ||
      ::fcntl(memory.get(), F_ADD_SEALS, Seals) != 0)
    return Status(Code::LimitExceeded,
                  describeErrno("shared memory: make " + std::to_string(size) + " bytes", errno));
  return map(std::move(memory), {size, RingSize}, size);
}

Expected<std::shared_ptr<SharedMemory>> SharedMemory::make() {
  Expected<std::shared_ptr<SharedMemory>> memory = make(ArenaSize);
  if (!memory)
    memory = make(0);
  if (memory)
    ForkedApart::add(memory->get());
  return memory;
}

Expected<std::shared_ptr<SharedMemory>> SharedMemory::adopt(Descriptor memory,
                                                            const Announcement &said) {
  const int seals = ::fcntl(memory.get(), F_GET_SEALS);
  if (seals < 0 || (seals & Seals) != Seals)
    return unusable("the compiler could make it shorter while it is read; it must be sealed "
                    "against shrinking, growing and further seals");
  struct statfs system{};
  struct stat info{};
  // Huge pages may be missing when they are touched.
  if (::fstatfs(memory.get(), &system) != 0 || system.f_type != TMPFS_MAGIC ||
      ::fstat(memory.get(), &info) != 0)
    return unusable("it was not made by memfd_create");
  if (static_cast<uint64_t>(info.st_size) != said.size)
    return unusable("the compiler states ", said.size, " bytes, it has ", info.st_size);
  return map(std::move(memory), said, ControlSize + 2 * said.ring);
}

SharedMemory::~SharedMemory() {
  ForkedApart::remove(this);
  ::munmap(bytes_, mapped_);
}

Status handOver(int socket, const SharedMemory &memory, int bell) {
  uint8_t text[SharedMemory::Announcement::Size];
  memory.announcement().encode(text);
  iovec part{text, sizeof text};
  const int descriptors[2] = {memory.descriptor(), bell};
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
  ssize_t n;
  do
    n = ::sendmsg(socket, &message, MSG_DONTWAIT | MSG_NOSIGNAL);
  while (n < 0 && errno == EINTR);
  // The first message into an empty socket is taken whole.
  if (n != ssize_t(sizeof text))
    return Status(n < 0 && (errno == EPIPE || errno == ECONNRESET) ? Code::Closed
                                                                   : Code::LimitExceeded,
                  describeErrno("shm: hand over the memory", n < 0 ? errno : EAGAIN));
  return Status();
}

Expected<HandedOver> takeOver(int socket) {
  uint8_t text[SharedMemory::Announcement::Size];
  iovec part{text, sizeof text};
  alignas(cmsghdr) char control[CMSG_SPACE(2 * sizeof(int))] = {};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof control; // the kernel closes what does not fit
  ssize_t n;
  do
    n = ::recvmsg(socket, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
  while (n < 0 && errno == EINTR);
  if (n < 0 && errno == EAGAIN)
    return HandedOver();
  if (n < 0)
    return Status(Code::Closed, describeErrno("read from the socket", errno));
  Descriptor descriptors[2];
  int count = 0;
  for (cmsghdr *at = CMSG_FIRSTHDR(&message); at; at = CMSG_NXTHDR(&message, at)) {
    if (at->cmsg_level != SOL_SOCKET || at->cmsg_type != SCM_RIGHTS)
      continue;
    for (size_t offset = 0; offset + sizeof(int) <= at->cmsg_len - CMSG_LEN(0);
         offset += sizeof(int)) {
      int fd;
      std::memcpy(&fd, CMSG_DATA(at) + offset, sizeof fd);
      Descriptor owned(fd);
      if (count < 2)
        descriptors[count++] = std::move(owned);
    }
  }
  if (n == 0)
    return makeError(Code::Closed, "the peer closed the connection");
  Expected<SharedMemory::Announcement> said =
      SharedMemory::Announcement::decode(text, static_cast<size_t>(n));
  if (!said)
    return said.status();
  // The system dropped some, though two have room.
  if (count < 2 && (message.msg_flags & MSG_CTRUNC))
    return makeError(Code::LimitExceeded,
                     "shared memory: the server has no descriptors left for it (ulimit -n)");
  if (count != 2 || (message.msg_flags & MSG_CTRUNC))
    return unusable("the compiler sent ", count,
                    " descriptors with it, expected the memory and a socket");
  int domain = 0;
  socklen_t size = sizeof domain;
  // Only of a socket is it known that writing to it without waiting does not wait.
  if (::getsockopt(descriptors[1].get(), SOL_SOCKET, SO_DOMAIN, &domain, &size) != 0 ||
      domain != AF_UNIX)
    return unusable("the second descriptor is not a socket");
  Expected<std::shared_ptr<SharedMemory>> memory =
      SharedMemory::adopt(std::move(descriptors[0]), *said);
  if (!memory)
    return memory.status();
  return HandedOver{std::move(*memory), std::move(descriptors[1])};
}

namespace {

/// A private mapping shows what the writer writes until a page of it is written here.
class ShmView final : public ArenaView {
public:
  ShmView(std::shared_ptr<const SharedMemory> memory, void *data, uint64_t offset,
          uint64_t capacity)
      : ArenaView(static_cast<const uint8_t *>(data), offset, capacity),
        memory_(std::move(memory)) {}
  ~ShmView() override { ::munmap(const_cast<uint8_t *>(data_), capacity_); }

  Status keep() override {
    auto *bytes = const_cast<uint8_t *>(data_);
    if (::mprotect(bytes, capacity_, PROT_READ | PROT_WRITE) != 0)
      return Status(Code::LimitExceeded, describeErrno("shared memory: keep a copy", errno));
    // The kernel copies each page; others may go on reading them meanwhile.
    const auto page = static_cast<size_t>(::sysconf(_SC_PAGESIZE));
    for (volatile uint8_t *at = bytes; at < bytes + capacity_; at += page)
      *at = *at;
    kept_ = true;
    return Status();
  }

private:
  const std::shared_ptr<const SharedMemory> memory_;
};

} // namespace

ShmArena::ShmArena(std::shared_ptr<SharedMemory> memory) : memory_(std::move(memory)) {
  const uint64_t start = (memory_->arenaOffset() + LeastSlot - 1) & ~uint64_t(LeastSlot - 1);
  if (start < memory_->size())
    free_[start] = memory_->size() - start;
}

std::shared_ptr<const ArenaSlot> ShmArena::take(size_t size) {
  if (size > memory_->size())
    return nullptr;
  uint64_t capacity = LeastSlot;
  while (capacity < size)
    capacity *= 2;
  uint64_t offset = 0;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    for (auto &[start, length] : free_) {
      if (length < capacity)
        continue;
      offset = start;
      if (length > capacity)
        free_[start + capacity] = length - capacity;
      free_.erase(start);
      break;
    }
  }
  if (offset == 0)
    return nullptr;
  // Without memory there would be nothing but SIGBUS to say so.
  if (::posix_fallocate(memory_->descriptor(), static_cast<off_t>(offset),
                        static_cast<off_t>(capacity)) != 0) {
    giveBack(offset, capacity);
    return nullptr;
  }
  auto *slot = new ArenaSlot{this, memory_->bytes() + offset, offset, capacity};
  return std::shared_ptr<const ArenaSlot>(slot,
                                          [arena = shared_from_this()](const ArenaSlot *taken) {
                                            arena->giveBack(taken->offset, taken->capacity);
                                            delete taken;
                                          });
}

void ShmArena::giveBack(uint64_t offset, uint64_t capacity) {
  const std::lock_guard<std::mutex> lock(mutex_);
  auto next = free_.emplace(offset, capacity).first;
  if (next != free_.begin()) {
    auto before = std::prev(next);
    if (before->first + before->second == offset) {
      before->second += capacity;
      free_.erase(next);
      next = before;
    }
  }
  const auto after = std::next(next);
  if (after != free_.end() && next->first + next->second == after->first) {
    next->second += after->second;
    free_.erase(after);
  }
}

Expected<std::shared_ptr<ArenaView>> ShmArena::view(uint64_t offset, uint64_t capacity) const {
  const uint64_t size = memory_->size();
  if (offset < memory_->arenaOffset() || offset % LeastSlot != 0 || offset > size ||
      capacity == 0 || capacity % LeastSlot != 0 || capacity > size - offset)
    return makeError(Code::Protocol, "shared memory: the peer states ", capacity,
                     " bytes at offset ", offset, ", outside of the memory for tensors (from ",
                     memory_->arenaOffset(), " to ", size, ")");
  void *data = ::mmap(nullptr, capacity, PROT_READ, MAP_PRIVATE, memory_->descriptor(),
                      static_cast<off_t>(offset));
  if (data == MAP_FAILED)
    return Status(
        Code::LimitExceeded,
        describeErrno("shared memory: map " + std::to_string(capacity) + " bytes", errno));
  return std::shared_ptr<ArenaView>(new ShmView(memory_, data, offset, capacity));
}

} // namespace mlbridge
