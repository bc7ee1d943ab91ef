// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The conversation over gRPC, as a compiler and a server see it.
#include "testing/raw_peer.h"

#include <gtest/gtest.h>

#include <arpa/inet.h>
#include <csignal>
#include <fstream>
#include <future>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>

namespace mlbridge {
namespace {

using namespace testing;
using namespace std::chrono_literals;

const std::string AnyPort = "grpc:127.0.0.1:0";

Status ask(const std::string &uri, int64_t k = 21, Duration deadline = 20s) {
  Runner runner = open(uri, Sum, within(deadline));
  (void)runner.set("k", k);
  if (Status s = runner.evaluate(); !s)
    return s;
  EXPECT_EQ(runner.output<int64_t>("twice")[0], 2 * k);
  return Status();
}

/// "HOST:PORT" of a server.
std::string placeOf(ServerThread &server) {
  const std::string uri = server.server().uri();
  return uri.substr(0, uri.find('?')).substr(uri.find(':') + 1);
}

/// A socket that listens and never accepts.
class SilentPort {
public:
  SilentPort() : socket_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    auto *any = reinterpret_cast<sockaddr *>(&address);
    EXPECT_EQ(::bind(socket_, any, size), 0);
    EXPECT_EQ(::listen(socket_, 1), 0);
    EXPECT_EQ(::getsockname(socket_, any, &size), 0);
    port_ = ntohs(address.sin_port);
  }
  ~SilentPort() { close(); }
  void close() {
    if (socket_ >= 0)
      ::close(socket_);
    socket_ = -1;
  }
  std::string uri() const { return "grpc:127.0.0.1:" + std::to_string(port_); }

private:
  int socket_;
  uint16_t port_ = 0;
};

TEST(Grpc, TakesAFreePortAndTellsWhich) {
  ServerThread server(AnyPort, serving(Sum), answerSum);
  const std::string uri = server.server().uri();
  EXPECT_EQ(uri.find("grpc:127.0.0.1:"), 0u);
  EXPECT_NE(uri, AnyPort);
  EXPECT_TRUE(ask(uri)) << ask(uri).toString();
  EXPECT_TRUE(ask("grpc://" + placeOf(server))) << "with slashes";
  EXPECT_TRUE(ask(uri + "?serdes=json"));
  EXPECT_EQ(Server::listen(uri, serving(Sum)).status().code(), Code::Busy);
}

TEST(Grpc, ListensAtIpv6AndLocalhost) {
  for (const char *uri : {"grpc:[::1]:0", "grpc:localhost:0"}) {
    ServerThread server(uri, serving(Sum), answerSum);
    EXPECT_TRUE(ask(server.server().uri())) << uri;
  }
}

TEST(Grpc, ServesEightThreadsOverOneConnection) {
  ServerThread server(AnyPort, serving(Sum), answerSum);
  Model model = Model::open(server.server().uri(), within(60s));
  ASSERT_TRUE(model.bind(Sum)) << model.status().toString();
  std::vector<std::thread> threads;
  std::atomic<int> right{0};
  for (int64_t t = 0; t < 8; ++t)
    threads.emplace_back([&, t] {
      Runner runner = model.newRunner();
      for (int64_t i = 0; i < 200; ++i) {
        (void)runner.set("k", 1000 * t + i);
        if (runner.evaluate() && runner.output<int64_t>("twice")[0] == 2 * (1000 * t + i))
          ++right;
      }
    });
  for (std::thread &thread : threads)
    thread.join();
  EXPECT_EQ(right, 8 * 200);
  EXPECT_EQ(server.server().statistics().connections, 1u);
  Expected<Metadata> statistics = model.statistics();
  ASSERT_TRUE(statistics) << statistics.status().toString();
  EXPECT_EQ((*statistics)["replies"], "1600");
}

TEST(Grpc, CarriesLargeMessagesBothWaysAtOnce) {
  constexpr int64_t Size = 10'000'000; // 40 MB
  const Signature echo{{TensorSpec::of<float>("x", {Size})}, {TensorSpec::of<float>("y", {Size})}};
  ServerThread server(AnyPort, serving(echo), [](Event &event) {
    if (event.kind() != EventKind::Request)
      return;
    const Span<float> x = event.input(0).as<float>();
    std::copy(x.begin(), x.end(), event.output(0).as<float>().begin());
    EXPECT_TRUE(event.reply());
  });
  Model model = Model::open(server.server().uri(), within(100s));
  ASSERT_TRUE(model.bind(echo)) << model.status().toString();
  std::vector<std::thread> threads;
  for (int t = 0; t < 2; ++t)
    threads.emplace_back([&, t] {
      Runner runner = model.newRunner();
      const Span<float> x = runner.input<float>("x");
      for (int64_t i = 0; i < Size; ++i)
        x.data()[i] = static_cast<float>(i % 1000 + t);
      for (int i = 0; i < 3; ++i)
        ASSERT_TRUE(runner.evaluate()) << runner.status().toString();
      const Span<const float> y = runner.output<float>("y");
      EXPECT_TRUE(std::equal(x.begin(), x.end(), y.begin()));
    });
  for (std::thread &thread : threads)
    thread.join();
}

// ---- ends that are missing, silent or die -------------------------------------------------------

TEST(Grpc, AMissingServerIsUnavailableAtOnce) {
  SilentPort port;
  port.close();
  const Status status = Model::open(port.uri(), within(std::chrono::hours(1))).status();
  EXPECT_EQ(status.code(), Code::Unavailable);
  EXPECT_NE(status.message().find(port.uri().substr(5)), std::string::npos) << status.message();
}

TEST(Grpc, AServerThatSaysNothingCostsTheDeadline) {
  SilentPort port;
  EXPECT_EQ(Model::open(port.uri(), within(200ms)).status().code(), Code::DeadlineExceeded);
}

TEST(Grpc, WaitsForAServerThatStarts) {
  SilentPort port;
  port.close();
  std::future<Status> asked =
      std::async(std::launch::async, [&] { return ask(port.uri() + "?wait=20s"); });
  ServerThread server(port.uri(), serving(Sum), answerSum);
  EXPECT_TRUE(asked.get());
}

TEST(Grpc, AServerThatStopsIsClosedAndItsSuccessorFound) {
  std::optional<ServerThread> server;
  server.emplace(AnyPort, serving(Sum), answerSum);
  const std::string uri = server->server().uri();
  Runner runner = open(uri, Sum, within(20s));
  ASSERT_TRUE(runner.evaluate()) << runner.status().toString();
  server.reset();
  const Code code = runner.evaluate().code();
  EXPECT_TRUE(code == Code::Closed || code == Code::Unavailable) << runner.status().toString();
  server.emplace(uri, serving(Sum), answerSum);
  EXPECT_TRUE(ask(uri));
}

/// Another process, since gRPC does not survive fork: a disabled test of this program, which is
/// killed at the end.
class Child {
public:
  explicit Child(const std::string &test, const std::string &uri = "") {
    int ends[2];
    EXPECT_EQ(::pipe(ends), 0);
    ::setenv("MLBRIDGE_TEST_PIPE", std::to_string(ends[1]).c_str(), 1);
    ::setenv("MLBRIDGE_TEST_URI", uri.c_str(), 1);
    const std::string filter = "--gtest_filter=GrpcChild.DISABLED_" + test;
    pid_ = ::fork();
    if (pid_ == 0) {
      ::execl("/proc/self/exe", "child", "--gtest_also_run_disabled_tests", "--gtest_brief=1",
              filter.c_str(), nullptr);
      ::_exit(1);
    }
    ::close(ends[1]);
    output_ = ends[0];
  }
  ~Child() {
    kill();
    ::close(output_);
  }
  void kill() {
    if (pid_ > 0) {
      ::kill(pid_, SIGKILL);
      ::waitpid(pid_, nullptr, 0);
    }
    pid_ = 0;
  }
  std::string line() const {
    std::string text;
    char c;
    while (::read(output_, &c, 1) == 1 && c != '\n')
      text += c;
    return text;
  }

  /// In the child.
  static void say(const std::string &text) {
    const std::string line = text + "\n";
    EXPECT_EQ(
        ::write(static_cast<int>(std::strtol(::secure_getenv("MLBRIDGE_TEST_PIPE"), nullptr, 10)),
                line.data(), line.size()),
        ssize_t(line.size()));
  }

private:
  pid_t pid_ = -1;
  int output_ = -1;
};

TEST(GrpcChild, DISABLED_ServesUntilKilled) {
  Expected<Server> server = Server::listen(AnyPort, serving(Sum));
  Child::say(server ? server->uri() : server.status().toString());
  Expected<Event> event = server->next();
  Child::say("asked");
  ::pause();
}

TEST(GrpcChild, DISABLED_AsksUntilKilled) {
  Runner runner = open(::secure_getenv("MLBRIDGE_TEST_URI"), Sum, within(60s));
  EXPECT_TRUE(runner.beginEpisode("e", "")) << runner.status().toString();
  EXPECT_TRUE(runner.evaluate()) << runner.status().toString();
  ::pause();
}

TEST(GrpcChild, DISABLED_ListensWithoutThreads) {
  ASSERT_TRUE(transportFor("grpc"));
  if (::geteuid() == 0) { // root has no such limit
    ASSERT_EQ(::setresuid(65534, 65534, 65534), 0);
  }
  const rlimit few{1, 1};
  ASSERT_EQ(::setrlimit(RLIMIT_NPROC, &few), 0);
  Child::say(name(Server::listen(AnyPort, serving(Sum)).status().code()));
  ::pause();
}

TEST(Grpc, WithoutThreadsIsAStatus) {
  Child child("ListensWithoutThreads");
  EXPECT_EQ(child.line(), name(Code::LimitExceeded));
  child.kill();
}

TEST(GrpcChild, DISABLED_ServesWithFewDescriptors) {
  const rlimit few{64, 64};
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &few), 0);
  ServerThread server(AnyPort, serving(Sum), answerSum);
  Child::say(server.server().uri());
  ::pause();
}

TEST(Grpc, AcceptsAgainOnceDescriptorsAreFree) {
  Child child("ServesWithFewDescriptors");
  const std::string uri = child.line();
  {
    std::vector<Descriptor> sockets;
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    address.sin_port = htons(static_cast<uint16_t>(std::stoi(uri.substr(uri.rfind(':') + 1))));
    for (int i = 0; i < 100; ++i) {
      sockets.emplace_back(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
      ASSERT_EQ(
          ::connect(sockets.back().get(), reinterpret_cast<sockaddr *>(&address), sizeof address),
          0);
    }
    EXPECT_NE(ask(uri, 21, 200ms).code(), Code::Ok); // all descriptors are taken
  }
  const Deadline deadline = Deadline::after(30s);
  Status asked;
  do
    asked = ask(uri, 21, 2s);
  while (!asked && !deadline.hasPassed());
  EXPECT_TRUE(asked) << asked.toString();
  child.kill();
}

TEST(Grpc, AFloodInOneMessageKeepsNobodyWaiting) {
  Expected<Server> server = Server::listen(AnyPort, serving(Sum));
  ASSERT_TRUE(server) << server.status().toString();
  const auto connected = [&] {
    auto peer = std::async(std::launch::async, [uri = server->uri()] {
      auto made = std::make_unique<RawPeer>(uri);
      Buffer bytes;
      RawPeer::appendHello(bytes);
      RawPeer::appendOpen(bytes, 1, Sum);
      EXPECT_TRUE(made->send(bytes));
      EXPECT_TRUE(made->await(FrameKind::Welcome));
      return made;
    });
    while (peer.wait_for(0s) != std::future_status::ready)
      (void)server->next(Deadline::after(2ms));
    return peer.get();
  };
  const auto greedy = connected(), modest = connected();
  Buffer flood, request, sum;
  for (uint64_t i = 1; i <= 20'000; ++i)
    RawPeer::append(flood, FrameKind::Statistics, 0, i);
  ASSERT_TRUE(sum.resize(24)); // x, then k
  std::memset(sum.data(), 0, sum.size());
  RawPeer::append(request, FrameKind::Request, 1, 1, sum.span());
  size_t from = 0;
  ASSERT_TRUE(greedy->offer(flood, from));
  EXPECT_EQ(from, flood.size());
  const uint64_t before = server->statistics().bytesIn;
  while (server->statistics().bytesIn == before)
    (void)server->next(Deadline::after(0ms));
  ASSERT_TRUE(modest->send(request));
  Expected<Event> event = server->next(Deadline::after(20s));
  ASSERT_TRUE(event) << event.status().toString();
  EXPECT_LT(server->statistics().bytesIn - before, flood.size());
  EXPECT_TRUE(event->reply());
}

TEST(Grpc, AKilledServerIsSeenInTheMiddleOfARequest) {
  Child child("ServesUntilKilled");
  Runner runner = open(child.line(), Sum, within(60s));
  std::future<Status> asked = std::async(std::launch::async, [&] { return runner.evaluate(); });
  EXPECT_EQ(child.line(), "asked");
  child.kill();
  EXPECT_EQ(asked.get().code(), Code::Closed);
}

TEST(Grpc, AKilledCompilerEndsItsEpisode) {
  std::promise<void> asked, ended;
  ServerThread server(AnyPort, serving(Sum), [&](Event &event) {
    answerSum(event);
    if (event.kind() == EventKind::Request)
      asked.set_value();
    if (event.kind() == EventKind::EpisodeEnd) {
      EXPECT_EQ(event.outcome().code(), Code::Closed);
      ended.set_value();
    }
  });
  Child child("AsksUntilKilled", server.server().uri());
  asked.get_future().wait();
  child.kill();
  ended.get_future().wait();
}

TEST(Grpc, IsRefusedInAForkedProcess) {
  ServerThread server(AnyPort, serving(Sum), answerSum);
  const std::string uri = server.server().uri();
  auto model = std::make_unique<Model>(Model::open(uri));
  ASSERT_TRUE(*model) << model->status().toString();
  const pid_t pid = ::fork();
  if (pid == 0) {
    const bool refused = Model::open(uri).status().code() == Code::InvalidArgument;
    model.reset(); // what it inherited can be destroyed
    ::_exit(refused ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(::waitpid(pid, &status, 0), pid);
  EXPECT_EQ(status, 0);
  Runner runner = open(uri, Sum);
  EXPECT_TRUE(runner.evaluate()) << runner.status().toString();
}

// ---- who may connect ----------------------------------------------------------------------------

TEST(Grpc, RefusesPlainTextThatLeavesTheMachine) {
  for (const char *place : {"0.0.0.0:0", "example.org:1", "[::]:0", "192.0.2.1:7"}) {
    const Status listening = Server::listen("grpc:" + std::string(place), serving(Sum)).status();
    EXPECT_EQ(listening.code(), Code::InvalidArgument) << place;
    EXPECT_NE(listening.message().find("insecure=yes"), std::string::npos) << listening.message();
  }
  const Status status = Model::open("grpc:192.0.2.1:7").status();
  EXPECT_EQ(status.code(), Code::InvalidArgument);
  EXPECT_NE(status.message().find("tls-ca"), std::string::npos) << status.message();
  ServerThread server("grpc:0.0.0.0:0?insecure=yes", serving(Sum), answerSum);
  const std::string place = placeOf(server);
  EXPECT_TRUE(ask("grpc:127.0.0.1" + place.substr(place.find(':'))));
}

TEST(Grpc, RefusesAPlaceOrOptionThatMakesNoSense) {
  for (const char *uri :
       {"grpc:", "grpc:localhost", "grpc:localhost:0", "grpc:localhost:70000", "grpc::50051",
        "grpc:local host:1", "grpc:[1.2.3.4]:1", "grpc:::1:5", "grpc:localhost:1/x",
        "grpc:localhost:1?insecure=perhaps", "grpc:localhost:1?keepalive=1s",
        "grpc:localhost:1?tls-name=x", "grpc:localhost:1?tls-ce=x"})
    EXPECT_EQ(Model::open(uri).status().code(), Code::InvalidArgument) << uri;
  EXPECT_EQ(Model::open("grpc:localhost:1?token-file=/nowhere/token").status().code(),
            Code::NotFound);
}

class GrpcGuarded : public ::testing::Test {
protected:
  std::string write(const std::string &name, const std::string &text) const {
    std::ofstream(folder_ / name) << text;
    return folder_ / name;
  }
  void run(const std::string &command) const {
    const std::string whole = "cd " + folder_.path() + " && " + command + " 2>openssl.log";
    ASSERT_EQ(std::system(whole.c_str()), 0) << command;
  }
  void makeAuthority(const std::string &name) const {
    run("openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj /CN=" +
        name + " -keyout " + name + ".key -out " + name + ".pem");
  }
  void makeCertificate(const std::string &name, const std::string &authority) const {
    run("openssl req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj /CN=" + name +
        " -keyout " + name + ".key -out " + name + ".csr");
    write("extensions", "subjectAltName=DNS:" + name + ",IP:127.0.0.1");
    run("openssl x509 -req -days 2 -in " + name + ".csr -CA " + authority + ".pem -CAkey " +
        authority + ".key -CAcreateserial -extfile extensions -out " + name + ".pem");
  }
  std::string certificate(const std::string &name) const {
    return "tls-cert=" + folder_ / (name + ".pem") + "&tls-key=" + folder_ / (name + ".key");
  }
  std::string authority(const std::string &name) const {
    return "tls-ca=" + folder_ / (name + ".pem");
  }
  TemporaryFolder folder_;
};

TEST_F(GrpcGuarded, WantsTheToken) {
  const std::string right = write("right", "s3cret-Token\n"),
                    wrong = write("wrong", "s3cret-token");
  ServerThread server(AnyPort + "?token-file=" + right, serving(Sum), answerSum);
  const std::string uri = "grpc:" + placeOf(server);
  EXPECT_TRUE(ask(uri + "?token-file=" + right)) << ask(uri + "?token-file=" + right).toString();
  for (const std::string &bad : {uri, std::string(uri).append("?token-file=").append(wrong)}) {
    const Status status = Model::open(bad).status();
    EXPECT_EQ(status.code(), Code::InvalidArgument) << bad;
    EXPECT_NE(status.message().find("token"), std::string::npos) << status.message();
    EXPECT_EQ(status.message().find("s3cret"), std::string::npos) << status.message();
  }
  EXPECT_EQ(server.server().statistics().connections, 1u);
}

TEST_F(GrpcGuarded, SpeaksTlsWithCertificatesOfBothSides) {
  makeAuthority("ca");
  makeAuthority("other");
  makeCertificate("server", "ca");
  makeCertificate("compiler", "ca");
  makeCertificate("stranger", "other");
  {
    ServerThread server(AnyPort + "?" + certificate("server"), serving(Sum), answerSum);
    const std::string uri = "grpc:" + placeOf(server) + "?";
    EXPECT_TRUE(ask(uri + authority("ca"))) << ask(uri + authority("ca")).toString();
    EXPECT_TRUE(ask(uri + authority("ca") + "&tls-name=server"));
    for (const std::string &bad : {authority("other"), authority("ca") + "&tls-name=example.org"}) {
      const Status status = Model::open(uri + bad, within(20s)).status();
      EXPECT_EQ(status.code(), Code::InvalidArgument) << status.toString();
      EXPECT_NE(status.message().find("TLS"), std::string::npos) << status.message();
    }
    EXPECT_EQ(Model::open("grpc:" + placeOf(server), within(20s)).status().code(),
              Code::Unavailable);
  }
  ServerThread server(AnyPort + "?" + certificate("server") + "&" + authority("ca"), serving(Sum),
                      answerSum);
  const std::string uri = "grpc:" + placeOf(server) + "?" + authority("ca");
  EXPECT_TRUE(ask(uri + "&" + certificate("compiler")));
  EXPECT_FALSE(Model::open(uri, within(20s)));
  EXPECT_FALSE(Model::open(uri + "&" + certificate("stranger"), within(20s)));
  EXPECT_EQ(server.server().statistics().connections, 1u);
  EXPECT_EQ(Server::listen(AnyPort + "?tls-cert=" + folder_ / "server.pem" +
                               "&tls-key=" + folder_ / "ca.key",
                           serving(Sum))
                .status()
                .code(),
            Code::InvalidArgument);
}

TEST_F(GrpcGuarded, SpeaksTlsWithSeveralServers) {
  makeAuthority("ca");
  makeCertificate("server", "ca");
  ServerThread one(AnyPort + "?" + certificate("server"), serving(Sum), answerSum);
  ServerThread other(AnyPort + "?" + certificate("server"), serving(Sum), answerSum);
  ServerThread plain(AnyPort, serving(Sum), answerSum);
  const std::string uri = "grpc:" + placeOf(plain) + "," + placeOf(one) + "," + placeOf(other);
  for (const char *name : {"", "&tls-name=server"})
    for (int i = 0; i < 4; ++i)
      EXPECT_TRUE(ask(uri + "?" + authority("ca") + name)) << name;
  EXPECT_EQ(plain.server().statistics().connections, 0u);
  const Status unnamed = Model::open("grpc:127.0.0.1:1,[::1]:2?" + authority("ca")).status();
  EXPECT_EQ(unnamed.code(), Code::InvalidArgument);
  EXPECT_NE(unnamed.message().find("tls-name"), std::string::npos) << unnamed.message();
}

} // namespace
} // namespace mlbridge
