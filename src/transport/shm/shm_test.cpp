// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Tests of shm alone: the hand-over of memory, peers that write anything into it at any
// time, and sleeping.
#include "testing/few_descriptors.h"
#include "testing/raw_peer.h"
#include "transport/shm/memory.h"
#include "transport/socket.h"

#include <mlbridge/model.h>

#include <gtest/gtest.h>

#include <cstring>
#include <ctime>
#include <fcntl.h>
#include <future>
#include <poll.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>

namespace mlbridge {
namespace {

using namespace testing;
using namespace std::chrono_literals;

constexpr int AllSeals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;
constexpr size_t Ring = SharedMemory::RingSize;
constexpr size_t Whole = SharedMemory::ControlSize + 2 * Ring;

/// A compiler that shares memory of its own making.
class Hostile {
public:
  explicit Hostile(const std::string &path)
      : socket_(std::move(*connectSocket("shm", path, Deadline::never()))) {}

  /// Sends the announcement with descriptors.
  void handOver(const SharedMemory::Announcement &said, const std::vector<int> &descriptors,
                size_t size = SharedMemory::Announcement::Size) const {
    uint8_t text[SharedMemory::Announcement::Size];
    said.encode(text);
    send(text, size, descriptors);
  }
  void send(const void *text, size_t size, const std::vector<int> &descriptors = {}) const {
    iovec part{const_cast<void *>(text), size};
    alignas(cmsghdr) char control[256] = {};
    msghdr message{};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    const size_t bytes = descriptors.size() * sizeof(int);
    if (bytes) {
      message.msg_control = control;
      message.msg_controllen = CMSG_SPACE(bytes);
      cmsghdr *rights = CMSG_FIRSTHDR(&message);
      rights->cmsg_level = SOL_SOCKET;
      rights->cmsg_type = SCM_RIGHTS;
      rights->cmsg_len = CMSG_LEN(bytes);
      std::memcpy(CMSG_DATA(rights), descriptors.data(), bytes);
    }
    EXPECT_EQ(::sendmsg(socket_.get(), &message, MSG_NOSIGNAL), ssize_t(size));
  }
  /// The last message that the server sends before it closes.
  std::string lastWords() const {
    std::string all;
    char text[4096];
    ssize_t n;
    while ((n = ::recv(socket_.get(), text, sizeof text, 0)) > 0 || (n < 0 && errno == EAGAIN)) {
      if (n > 0)
        all.append(text, static_cast<size_t>(n));
      pollfd fd{socket_.get(), POLLIN, 0};
      ::poll(&fd, 1, -1);
    }
    return all;
  }
  int socket() const { return socket_.get(); }

private:
  const Descriptor socket_;
};

Descriptor memoryOf(size_t size, unsigned flags = 0, int seals = AllSeals) {
  Descriptor memory(::memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING | flags));
  EXPECT_EQ(::ftruncate(memory.get(), static_cast<off_t>(size)), 0);
  EXPECT_EQ(::fcntl(memory.get(), F_ADD_SEALS, seals), 0);
  return memory;
}

class Shm : public ::testing::Test {
protected:
  void TearDown() override {
    // Whatever happened, the server answers others.
    Runner runner = open(uri_, Sum, within(60s));
    ASSERT_TRUE(runner.set("k", int64_t(4)));
    EXPECT_TRUE(runner.evaluate()) << runner.status().toString();
    EXPECT_EQ(runner.output<int64_t>("twice")[0], 8);
  }

  const TemporaryFolder folder_;
  const std::string path_ = folder_ / "s", uri_ = "shm:" + path_;
  ServerThread server_{uri_, serving(Sum), answerSum};
};

TEST_F(Shm, RefusesMemoryThatIsNotAsItMustBeAndSaysWhy) {
  int pair[2];
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
  const Descriptor one(pair[0]), other(pair[1]);
  const Descriptor good = memoryOf(Whole);
  const int bell = other.get();
  struct Case {
    const char *what, *why;
    SharedMemory::Announcement said;
    Descriptor memory;
  } cases[] = {
      {"not sealed", "sealed", {Whole, Ring}, memoryOf(Whole, 0, F_SEAL_GROW | F_SEAL_SEAL)},
      {"seals may be added",
       "sealed",
       {Whole, Ring},
       memoryOf(Whole, 0, F_SEAL_SHRINK | F_SEAL_GROW)},
      {"read only", "map", {Whole, Ring}, memoryOf(Whole, 0, AllSeals | F_SEAL_WRITE)},
      {"shorter", "has 4096", {Whole, Ring}, memoryOf(4096)},
      {"longer", "it has", {Whole, Ring}, memoryOf(2 * Whole)},
      {"a file", "sealed", {Whole, Ring}, Descriptor(::open(path_.c_str(), O_PATH))},
      {"small rings", "power of two", {4096 + 2 * 64, 64}, memoryOf(4096 + 2 * 64)},
      {"odd rings", "power of two", {4096 + 2 * 5000, 5000}, memoryOf(4096 + 2 * 5000)},
      {"large rings", "power of two", {4096 + (4 << 20), 2 << 20}, memoryOf(4096 + (4 << 20))},
      {"overlapping rings", "two rings", {Whole, 2 * Ring}, memoryOf(Whole)},
  };
  for (const Case &c : cases) {
    const Hostile peer(path_);
    peer.handOver(c.said, {c.memory.get(), bell});
    EXPECT_NE(peer.lastWords().find(c.why), std::string::npos) << c.what;
  }
  const Descriptor huge(::memfd_create("test", MFD_ALLOW_SEALING | MFD_HUGETLB));
  if (huge && ::ftruncate(huge.get(), 4 << 20) == 0) {
    ASSERT_EQ(::fcntl(huge.get(), F_ADD_SEALS, AllSeals), 0);
    const Hostile peer(path_);
    peer.handOver({4 << 20, Ring}, {huge.get(), bell});
    EXPECT_FALSE(peer.lastWords().empty());
  }
  for (const std::vector<int> &descriptors : {std::vector<int>{},
                                              {good.get()},
                                              {good.get(), good.get()},
                                              {bell, bell},
                                              {bell, good.get()},
                                              {good.get(), bell, bell, bell}}) {
    const Hostile peer(path_);
    peer.handOver({Whole, Ring}, descriptors);
    EXPECT_FALSE(peer.lastWords().empty()) << descriptors.size();
  }
  const Hostile talker(path_);
  talker.send("GET / HTTP/1.0\r\n\r\n", 18);
  EXPECT_NE(talker.lastWords().find("shm:PATH"), std::string::npos);
  const Hostile brief(path_);
  brief.handOver({Whole, Ring}, {good.get(), bell}, 31);
  EXPECT_FALSE(brief.lastWords().empty());
  const Hostile gone(path_);
  const Hostile silent(path_);
}

TEST_F(Shm, AndUnixAtOneSocketTellEachOther) {
  const Status wrong = Model::open("unix:" + path_, within(60s)).status();
  EXPECT_EQ(wrong.code(), Code::Protocol) << wrong.toString();
  EXPECT_NE(wrong.message().find("shm:PATH"), std::string::npos) << wrong.toString();
  ServerThread plain("unix:" + folder_ / "u", serving(Sum), answerSum);
  const Status other = Model::open("shm:" + folder_ / "u", within(60s)).status();
  EXPECT_EQ(other.code(), Code::Protocol) << other.toString();
  EXPECT_NE(other.message().find("it must listen at shm:PATH: "), std::string::npos)
      << other.message();
}

TEST(ShmDescriptors, ThatTheServerHasNoneLeftIsNotTheCompilersFault) {
  for (const int left : {1, 2}) { // the connection takes one
    const TemporaryFolder folder;
    const std::string uri = "shm:" + folder / "s";
    Expected<Server> server = Server::listen(uri, serving(Sum));
    ASSERT_TRUE(server) << server.status().toString();
    RawPeer peer(uri);
    {
      const FewDescriptors few(left);
      EXPECT_EQ(server->next(Deadline::after(50ms)).status().code(), Code::DeadlineExceeded);
    }
    while (peer.listen() && peer.frames.empty())
      (void)server->next(Deadline::after(2ms));
    EXPECT_EQ(peer.verdict().code(), Code::LimitExceeded) << peer.verdict().toString();
    EXPECT_NE(peer.verdict().message().find("no descriptors left"), std::string::npos)
        << peer.verdict().toString();
  }
}

/// A compiler that did everything right until its hello.
struct Shaken {
  explicit Shaken(const std::string &path) : peer(path) {
    int pair[2];
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
    bell = Descriptor(pair[0]);
    const Descriptor given(pair[1]);
    memory = *SharedMemory::make();
    peer.handOver(memory->announcement(), {memory->descriptor(), given.get()});
  }
  RingControl &toServer() const { return memory->control(true); }
  RingControl &toCompiler() const { return memory->control(false); }
  void ring() const { peer.send("", 1); }

  Hostile peer;
  Descriptor bell;
  std::shared_ptr<SharedMemory> memory;
};

TEST_F(Shm, PositionsOutOfRangeEndTheConnection) {
  for (const uint64_t position : {uint64_t(Ring) + 1, ~uint64_t(0), uint64_t(1) << 63}) {
    const Shaken compiler(path_);
    compiler.toServer().written = position;
    compiler.ring();
    EXPECT_TRUE(compiler.peer.lastWords().find_first_not_of('\0') == std::string::npos);
  }
  // The other way, seen when the server answers.
  const Shaken compiler(path_);
  compiler.toCompiler().taken = uint64_t(Ring) * 3;
  compiler.toServer().written = 4096; // zeros are no hello
  compiler.ring();
  (void)compiler.peer.lastWords();
}

TEST_F(Shm, AServerStandsACompilerThatChangesAllMemoryAllTheTime) {
  std::vector<std::thread> threads;
  for (unsigned seed = 1; seed <= 2; ++seed)
    threads.emplace_back([&, seed] {
      unsigned state = seed;
      for (int round = 0; round < 20; ++round) {
        const Shaken compiler(path_);
        for (int i = 0; i < 2000; ++i) {
          state = state * 1664525u + 1013904223u;
          compiler.toServer().written = state >> 14;
          compiler.toCompiler().taken = state >> 13;
          compiler.toServer().readerSleeps = state & 3;
          compiler.toServer().writerSleeps = 1;
          compiler.toCompiler().readerSleeps = 1;
          compiler.toCompiler().writerSleeps = state & 3;
          if (state % 64 == 0 && ::send(compiler.peer.socket(), "", 1, MSG_NOSIGNAL) != 1)
            break;
        }
      }
    });
  for (std::thread &thread : threads)
    thread.join();
}

TEST_F(Shm, ACompilerThatDiesInTheMiddleOfAMessageIsForgotten) {
  const Shaken compiler(path_);
  compiler.toServer().written = 4;
  compiler.ring();
}

double processorSeconds() {
  timespec now{};
  ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) / 1e9;
}

TEST(ShmWaiting, TakesAlmostNoProcessorTime) {
  const TemporaryFolder folder;
  const std::string uri = "shm:" + folder / "s";
  std::promise<void> asked, answer;
  ServerThread server(uri, serving(Sum), [&](Event &event) {
    if (event.step() == 100) {
      asked.set_value();
      answer.get_future().wait();
    }
    answerSum(event);
  });
  Runner runner = open(uri, Sum, within(60s));
  for (int i = 0; i < 100; ++i) // a quick conversation, in which waiting is no sleep at first
    ASSERT_TRUE(runner.evaluate());
  std::future<bool> waiting =
      std::async(std::launch::async, [&] { return runner.evaluate().ok(); });
  asked.get_future().wait();
  const double before = processorSeconds();
  EXPECT_EQ(waiting.wait_for(500ms), std::future_status::timeout);
  EXPECT_LT(processorSeconds() - before, 0.1);
  answer.set_value();
  EXPECT_TRUE(waiting.get());
}

TEST(ShmWaiting, OnOneCoreNobodyMissesABell) {
  cpu_set_t before, one;
  ASSERT_EQ(::sched_getaffinity(0, sizeof before, &before), 0);
  CPU_ZERO(&one);
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu)
    if (CPU_ISSET(cpu, &before)) {
      CPU_SET(cpu, &one);
      break;
    }
  ASSERT_EQ(::sched_setaffinity(0, sizeof one, &one), 0); // threads inherit it
  {
    const TemporaryFolder folder;
    const std::string uri = "shm:" + folder / "s";
    ServerThread server(uri, serving(Sum), answerSum);
    std::vector<std::thread> threads;
    std::atomic<int> right{0};
    Model model = Model::open(uri, within(60s));
    ASSERT_TRUE(model.bind(Sum));
    for (int64_t t = 0; t < 8; ++t)
      threads.emplace_back([&, t] {
        Runner runner = t % 2 ? open(uri, Sum, within(60s)) : model.newRunner();
        for (int64_t i = 0; i < 500; ++i) {
          (void)runner.set("k", t + i);
          right += runner.evaluate() && runner.output<int64_t>("twice")[0] == 2 * (t + i);
        }
      });
    for (std::thread &thread : threads)
      thread.join();
    EXPECT_EQ(right, 8 * 500);
  }
  ::sched_setaffinity(0, sizeof before, &before);
}

TEST(ShmLimits, AFileSizeLimitIsAnErrorAndNoSignal) {
  const TemporaryFolder folder;
  const std::string uri = "shm:" + folder / "s";
  ServerThread server(uri, serving(Sum), answerSum);
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  rlimit low = before;
  low.rlim_cur = 4096;
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &low), 0);
  const Status status = Model::open(uri).status();
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &before), 0);
  EXPECT_EQ(status.code(), Code::LimitExceeded) << status.toString();
  EXPECT_TRUE(Model::open(uri));
}

TEST(ShmFaults, AServerThatIsKilledIsSeenAtOnce) {
  const TemporaryFolder folder;
  const std::string uri = "shm:" + folder / "s";
  const pid_t child = ::fork();
  if (child == 0) {
    Expected<Server> server = Server::listen(uri, serving(Sum));
    while (true) {
      Expected<Event> event = server->next();
      if (event && event->step() == 50)
        ::raise(SIGKILL);
      if (event)
        answerSum(*event);
    }
  }
  Runner runner = open(uri + "?wait=60s", Sum, within(60s));
  for (int i = 0; i < 50; ++i)
    ASSERT_TRUE(runner.evaluate()) << runner.status().toString();
  EXPECT_EQ(runner.evaluate().code(), Code::Closed);
  ::waitpid(child, nullptr, 0);
}

} // namespace
} // namespace mlbridge
