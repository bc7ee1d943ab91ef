// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Several servers behind one address: who is asked, and what happens when one is lost or replaced.
#include "core/descriptor.h"
#include "testing/sum_server.h"

#include <mlbridge/fitting.h>

#include <grpcpp/server.h>
#include <grpcpp/server_builder.h>
#include <grpcpp/support/byte_buffer.h>
#include <grpcpp/support/method_handler.h>
#include <gtest/gtest.h>

#include <arpa/inet.h>
#include <atomic>
#include <fstream>
#include <future>
#include <sys/socket.h>

namespace mlbridge {
namespace {

using namespace testing;
using namespace std::chrono_literals;

const std::string AnyPort = "grpc:127.0.0.1:0";
// Another server is looked for so long where one is missing.
constexpr Duration AWhile = 3s;
const Signature Other{{TensorSpec::of<float>("y", {9})}, {TensorSpec::of<float>("z")}};

std::string placeOf(ServerThread &server) {
  const std::string uri = server.server().uri();
  return uri.substr(0, uri.find('?')).substr(uri.find(':') + 1);
}

ServerOptions stateless(Signature signature, Metadata metadata = {}) {
  ServerOptions options = serving(std::move(signature), std::move(metadata));
  options.stateless = true;
  return options;
}

/// Servers that count what they answer.
class Fleet {
public:
  explicit Fleet(size_t count, const ServerOptions &options = stateless(Sum),
                 const std::string &at = AnyPort)
      : answers_(count), servers_(count), options_(options) {
    for (size_t i = 0; i < count; ++i)
      start(i, at);
  }
  void start(size_t i, const std::string &at) {
    servers_[i].emplace(at, options_, [this, i](Event &event) {
      if (event.kind() == EventKind::Request)
        ++answers_[i];
      answerSum(event);
    });
    if (places_.size() < servers_.size())
      places_.push_back(placeOf(*servers_[i]));
  }
  void stop(size_t i) { servers_[i].reset(); }
  ServerThread &operator[](size_t i) { return *servers_[i]; }
  const std::string &place(size_t i) const { return places_[i]; }
  int answers(size_t i) const { return answers_[i]; }
  size_t size() const { return answers_.size(); }
  std::string uri(const std::string &more = "") const {
    std::string text = "grpc:";
    for (const std::string &place : places_)
      text += (text.back() == ':' ? "" : ",") + place;
    return text + more;
  }

private:
  std::vector<std::atomic<int>> answers_;
  std::vector<std::optional<ServerThread>> servers_;
  std::vector<std::string> places_;
  const ServerOptions options_;
};

Status ask(Runner &runner, int64_t k = 21) {
  (void)runner.set("k", k);
  if (Status s = runner.evaluate(); !s)
    return s;
  EXPECT_EQ(runner.output<int64_t>("twice")[0], 2 * k);
  return Status();
}

/// The number of the server that answers a question.
size_t whoAnswers(const Fleet &fleet, Runner &runner) {
  std::vector<int> before;
  for (size_t i = 0; i < fleet.size(); ++i)
    before.push_back(fleet.answers(i));
  const Status status = ask(runner);
  EXPECT_TRUE(status) << status.toString();
  for (size_t i = 0; i < fleet.size(); ++i)
    if (fleet.answers(i) != before[i])
      return i;
  ADD_FAILURE() << "no server has answered";
  return 0;
}

Status askOnce(const std::string &uri, Duration deadline = 20s) {
  Runner runner = open(uri, Sum, within(deadline));
  return ask(runner);
}

/// A port at which nobody listens, or somebody who never accepts.
class Port {
public:
  explicit Port(bool listens) : socket_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    auto *any = reinterpret_cast<sockaddr *>(&address);
    EXPECT_EQ(::bind(socket_.get(), any, size), 0);
    if (listens) {
      EXPECT_EQ(::listen(socket_.get(), 1), 0);
    }
    EXPECT_EQ(::getsockname(socket_.get(), any, &size), 0);
    place_ = "127.0.0.1:" + std::to_string(ntohs(address.sin_port));
  }
  const std::string &place() const { return place_; }

private:
  Descriptor socket_;
  std::string place_;
};

/// A server that takes connections and calls, or doesn't even take the calls, and says nothing
/// more.
class StandingServer final : public grpc::Service {
public:
  explicit StandingServer(bool takesCalls) {
    using Stream = grpc::ServerReaderWriter<grpc::ByteBuffer, grpc::ByteBuffer>;
    const auto listen = [](StandingServer *server, grpc::ServerContext *context, Stream *stream) {
      ++server->taken_;
      context->AddInitialMetadata("mlbridge-transport", "1");
      stream->SendInitialMetadata();
      for (grpc::ByteBuffer message; stream->Read(&message);) {
      }
      return grpc::Status::OK;
    };
    AddMethod(new grpc::internal::RpcServiceMethod(
        "/mlbridge.v1.Bridge/Converse", grpc::internal::RpcMethod::BIDI_STREAMING,
        takesCalls ? new grpc::internal::BidiStreamingHandler<StandingServer, grpc::ByteBuffer,
                                                              grpc::ByteBuffer>(listen, this)
                   : nullptr));
    grpc::ServerBuilder builder;
    if (!takesCalls) {
      MarkMethodAsync(0);
      queue_ = builder.AddCompletionQueue();
    }
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port_);
    builder.RegisterService(this);
    server_ = builder.BuildAndStart();
    EXPECT_TRUE(server_);
  }
  ~StandingServer() override {
    server_->Shutdown(std::chrono::system_clock::now());
    if (!queue_)
      return;
    queue_->Shutdown();
    void *tag;
    for (bool ok; queue_->Next(&tag, &ok);) {
    }
  }
  StandingServer(const StandingServer &) = delete;
  StandingServer &operator=(const StandingServer &) = delete;
  std::string place() const { return "127.0.0.1:" + std::to_string(port_); }
  int taken() const { return taken_; }

private:
  std::atomic<int> taken_{0}; ///< calls
  int port_ = 0;
  std::unique_ptr<grpc::ServerCompletionQueue> queue_; ///< of calls that nobody asks for
  std::unique_ptr<grpc::Server> server_;
};

// ---- who is asked -------------------------------------------------------------------------------

TEST(GrpcFleet, SpreadsModelsOverTheServers) {
  Fleet fleet(3);
  for (int i = 0; i < 60; ++i)
    ASSERT_TRUE(askOnce(fleet.uri())) << askOnce(fleet.uri()).toString();
  for (size_t i = 0; i < 3; ++i)
    EXPECT_GT(fleet.answers(i), 0) << i;
}

TEST(GrpcFleet, TakesAddressesOfBothKindsAndNames) {
  ServerThread four(AnyPort, stateless(Sum), answerSum),
      six("grpc:[::1]:0", stateless(Sum), answerSum);
  EXPECT_TRUE(askOnce("grpc:" + placeOf(four) + "," + placeOf(six)));
  const Port missing(false);
  for (ServerThread *only : {&four, &six}) {
    const std::string uri = "grpc:" + missing.place() + ",nowhere.invalid:7," + placeOf(*only);
    const Status status = askOnce(uri + "?insecure=yes");
    EXPECT_TRUE(status) << status.toString();
  }
}

TEST(GrpcFleet, PassesOverServersThatDoNotAnswer) {
  Fleet fleet(1);
  const Port missing(false), silent(true);
  for (int i = 0; i < 8; ++i) {
    const Status status =
        askOnce("grpc:" + missing.place() + "," + silent.place() + "," + fleet.place(0));
    EXPECT_TRUE(status) << status.toString();
  }
}

TEST(GrpcFleet, LeavesAServerThatStandsStill) {
  Fleet fleet(1);
  for (const bool takesCalls : {false, true}) {
    const StandingServer standing(takesCalls);
    const std::string both = "grpc:" + standing.place() + "," + fleet.place(0);
    const int before = fleet.answers(0);
    for (int i = 0; i < 3; ++i) {
      const int taken = standing.taken();
      const Status status = askOnce(both);
      EXPECT_TRUE(status) << status.toString();
      // gRPC begins with any of those that are there, and again when another one is.
      EXPECT_LE(standing.taken(), taken + 2);
    }
    EXPECT_EQ(fleet.answers(0), before + 3);
    const Port missing(false);
    const Status alone = askOnce("grpc:" + standing.place() + "," + missing.place(), 3s);
    EXPECT_EQ(alone.code(), Code::DeadlineExceeded) << alone.toString();
    EXPECT_NE(alone.message().find(standing.place()), std::string::npos) << alone.message();
  }
}

TEST(GrpcFleet, NobodyThereIsAnErrorWithinTheDeadline) {
  const Port missing(false), other(false), silent(true);
  const Status none =
      askOnce("grpc:" + missing.place() + "," + other.place(), std::chrono::hours(1));
  EXPECT_EQ(none.code(), Code::Unavailable) << none.toString();
  EXPECT_NE(none.message().find(missing.place()), std::string::npos) << none.message();
  const Status late = askOnce("grpc:" + missing.place() + "," + silent.place(), 300ms);
  EXPECT_EQ(late.code(), Code::DeadlineExceeded) << late.toString();
  const Status unknown = askOnce("grpc:nowhere.invalid:7,elsewhere.invalid:8?insecure=yes");
  EXPECT_EQ(unknown.code(), Code::Unavailable) << unknown.toString();
  EXPECT_NE(unknown.message().find("nowhere.invalid"), std::string::npos) << unknown.message();
}

TEST(GrpcFleet, RefusesListsThatMakeNoSense) {
  const std::pair<const char *, const char *> wrong[] = {
      {"grpc:127.0.0.1:1,", "number 2 of the list of servers is empty"},
      {"grpc:,127.0.0.1:1", "number 1 of the list"},
      {"grpc:127.0.0.1:1,,127.0.0.1:2", "number 2 of the list"},
      {"grpc:127.0.0.1:1,localhost:1", "localhost:1 is in the list of servers twice"},
      {"grpc:[::1]:1,[0:0:0::1]:1", "is in the list of servers twice"},
      {"grpc:127.0.0.1:1,127.0.0.1", "no port"},
      {"grpc:127.0.0.1:1, 127.0.0.1:2", "neither a name nor an address"},
      {"grpc:127.0.0.1:1,192.0.2.1:2", "192.0.2.1 is not this machine's loopback address"}};
  for (const auto &[uri, says] : wrong) {
    const Status status = Model::open(uri).status();
    EXPECT_EQ(status.code(), Code::InvalidArgument) << uri;
    EXPECT_NE(status.message().find(says), std::string::npos) << status.message();
  }
  const Status listening = Server::listen("grpc:127.0.0.1:0,127.0.0.1:1", serving(Sum)).status();
  EXPECT_EQ(listening.code(), Code::InvalidArgument);
}

TEST(GrpcFleet, PassesOverAServerThatWantsAnotherToken) {
  TemporaryFolder folder;
  std::ofstream(folder / "ours") << "ours";
  std::ofstream(folder / "theirs") << "theirs";
  const auto at = [&](const char *token) { return AnyPort + "?token-file=" + folder / token; };
  ServerThread stranger(at("theirs"), stateless(Sum), answerSum);
  ServerThread friendly(at("ours"), stateless(Sum), answerSum);
  const std::string both = "grpc:" + placeOf(stranger) + "," + placeOf(friendly);
  for (int i = 0; i < 8; ++i)
    EXPECT_TRUE(askOnce(both + "?token-file=" + folder / "ours"));
  EXPECT_EQ(stranger.server().statistics().connections, 0u);
  const Status none = askOnce(both);
  EXPECT_EQ(none.code(), Code::InvalidArgument) << none.toString();
  EXPECT_NE(none.message().find("token"), std::string::npos) << none.message();
}

// ---- a server is lost ---------------------------------------------------------------------------

TEST(GrpcFleet, AQuestionGoesToAnotherServer) {
  Fleet fleet(3);
  Runner runner = open(fleet.uri(), Sum, within(20s));
  for (int lost = 0; lost < 2; ++lost) {
    fleet.stop(whoAnswers(fleet, runner));
    const Status status = ask(runner, 4);
    EXPECT_TRUE(status) << status.toString();
  }
}

TEST(GrpcFleet, AnEpisodeGoesOnElsewhereIfTheModelKeepsNothing) {
  Fleet fleet(2);
  Runner runner = open(fleet.uri(), Sum, within(20s));
  ASSERT_TRUE(runner.beginEpisode("e", "f.c"));
  const size_t first = whoAnswers(fleet, runner);
  fleet.stop(first);
  for (int64_t k = 0; k < 3; ++k)
    ASSERT_TRUE(ask(runner, k)) << runner.status().toString();
  EXPECT_EQ(fleet.answers(1 - first), 3);
  EXPECT_TRUE(runner.endEpisode(Status()));
}

TEST(GrpcFleet, AnEpisodeOfAPolicyThatRemembersEndsWithItsServer) {
  Fleet fleet(2, serving(Sum));
  Runner runner = open(fleet.uri(), Sum, within(20s));
  ASSERT_TRUE(runner.beginEpisode("e", ""));
  fleet.stop(whoAnswers(fleet, runner));
  EXPECT_EQ(ask(runner).code(), Code::Closed);
  const Status lost = ask(runner);
  EXPECT_EQ(lost.code(), Code::Closed) << lost.toString();
  EXPECT_NE(lost.message().find("during the episode"), std::string::npos) << lost.message();
  // The next episode is another server's from its beginning.
  ASSERT_TRUE(runner.beginEpisode("e", ""));
  EXPECT_TRUE(ask(runner)) << runner.status().toString();
}

TEST(GrpcFleet, TheFirstQuestionOfAnEpisodeBeginsItAnewElsewhere) {
  Fleet fleet(2, serving(Sum));
  Runner runner = open(fleet.uri(), Sum, within(20s));
  const size_t first = whoAnswers(fleet, runner);
  ASSERT_TRUE(runner.beginEpisode("e", ""));
  fleet.stop(first);
  EXPECT_TRUE(ask(runner)) << runner.status().toString();
}

TEST(GrpcFleet, ASingleServerIsNotAskedAgain) {
  std::optional<ServerThread> server;
  server.emplace(AnyPort, stateless(Sum), answerSum);
  Runner runner = open(server->server().uri(), Sum, within(20s));
  ASSERT_TRUE(ask(runner));
  server.reset();
  EXPECT_FALSE(ask(runner));
}

TEST(GrpcFleet, ThreadsOfOneModelGoOnTogether) {
  Fleet fleet(3);
  Model model = Model::open(fleet.uri(), within(30s));
  ASSERT_TRUE(model.bind(Sum)) << model.status().toString();
  std::atomic<int> right{0}, started{0};
  std::promise<void> first;
  std::vector<std::thread> threads;
  for (int64_t t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      Runner runner = model.newRunner();
      for (int64_t i = 0; i < 100; ++i) {
        const Status status = ask(runner, 100 * t + i);
        EXPECT_TRUE(status) << status.toString();
        right += status.ok();
        if (++started == 40)
          first.set_value();
      }
    });
  first.get_future().wait();
  for (size_t i = 0; i < 2; ++i)
    fleet.stop(i);
  for (std::thread &thread : threads)
    thread.join();
  EXPECT_EQ(right, 400);
}

// ---- a server is replaced -----------------------------------------------------------------------

TEST(GrpcFleet, ADrainingServerSendsItsCompilersAway) {
  Fleet fleet(2);
  Runner runner = open(fleet.uri(), Sum, within(20s));
  ASSERT_TRUE(runner.beginEpisode("e", ""));
  const size_t first = whoAnswers(fleet, runner);
  fleet[first].server().drain(1h);
  for (int64_t k = 0; k < 20; ++k)
    ASSERT_TRUE(ask(runner, k)) << runner.status().toString();
  for (int i = 0; i < 8; ++i)
    EXPECT_TRUE(askOnce(fleet.uri()));
  EXPECT_LE(fleet.answers(first), 21);
  EXPECT_GT(fleet.answers(1 - first), 7);
}

TEST(GrpcFleet, DrainingWaitsForTheEpisodeOfAPolicyThatRemembers) {
  Fleet fleet(2, serving(Sum));
  Runner runner = open(fleet.uri(), Sum, within(20s));
  ASSERT_TRUE(runner.beginEpisode("e", ""));
  const size_t first = whoAnswers(fleet, runner);
  fleet[first].server().drain(1h);
  for (int64_t k = 0; k < 20; ++k)
    ASSERT_TRUE(ask(runner, k)) << runner.status().toString();
  EXPECT_EQ(fleet.answers(first), 21);
  ASSERT_TRUE(runner.endEpisode(Status()));
  while (!fleet[first].server().isStopped())
    std::this_thread::yield();
  ASSERT_TRUE(runner.beginEpisode("e", ""));
  EXPECT_TRUE(ask(runner)) << runner.status().toString();
  EXPECT_EQ(fleet.answers(first), 21);
}

TEST(GrpcFleet, AServerWithAnotherSignatureIsNeverAsked) {
  ServerThread wrong(AnyPort, stateless(Other), [](Event &event) {
    EXPECT_NE(event.kind(), EventKind::Request) << "a question that was meant for another model";
  });
  Fleet fleet(1);
  const std::string both = "grpc:" + placeOf(wrong) + "," + fleet.place(0);
  for (int i = 0; i < 12; ++i) {
    const Status status = askOnce(both);
    EXPECT_TRUE(status) << status.toString();
  }
  Runner runner = open(both, Sum, within(20s));
  ASSERT_TRUE(ask(runner));
  fleet.stop(0);
  (void)runner.set("k", int64_t(1));
  const Status status = runner.evaluate(Deadline::after(AWhile));
  EXPECT_EQ(status.code(), Code::Mismatch) << status.toString();
  for (const std::string &part : {placeOf(wrong), Other.toString(), Sum.toString()})
    EXPECT_NE(status.message().find(part), std::string::npos) << status.message();
  const Status opened = askOnce(both, AWhile);
  EXPECT_EQ(opened.code(), Code::Mismatch) << opened.toString();
  EXPECT_NE(opened.message().find(placeOf(wrong)), std::string::npos) << opened.message();
}

TEST(GrpcFleet, IfAllServersHaveAnotherSignatureThatIsSaidAtOnce) {
  ServerThread one(AnyPort, stateless(Other), answerSum), two(AnyPort, stateless(Other), answerSum);
  const std::string list = "grpc:" + placeOf(one) + "," + placeOf(two);
  const Status status = askOnce(list, std::chrono::hours(1));
  EXPECT_EQ(status.code(), Code::Mismatch) << status.toString();
}

TEST(GrpcFleet, ASignatureThatFollowsFromTheModelIsBoundWhereItFits) {
  const Signature pair{Sum.inputs, {TensorSpec::of<float>("pair", {2})}};
  const auto signatureFor = [&](const Model &model) {
    return model.metadata("pairs").has_value() ? pair : Sum;
  };
  const Port missing(false);
  Fleet fleet(1, stateless(Sum));
  ServerThread wrong(AnyPort, stateless(Other), answerSum),
      same(AnyPort, stateless(pair, {{"pairs", "yes"}}), answerSum);
  const std::string three = "grpc:" + missing.place() + "," + placeOf(wrong) + ",";
  std::string last;
  for (int i = 0; i < 12; ++i) {
    const bool hasPairs = i % 2 == 0;
    Model model = Model::open(three + (hasPairs ? placeOf(same) : fleet.place(0)), within(20s));
    const Status bound = bindFitting(model, [&](const Model &asked) {
      last = asked.metadata("mlbridge.server").value_or("");
      return signatureFor(asked);
    });
    ASSERT_TRUE(bound) << bound.toString();
    EXPECT_EQ(last, hasPairs ? placeOf(same) : fleet.place(0));
    EXPECT_EQ(model.metadata("mlbridge.server"), last);
    EXPECT_EQ(*model.signature(), hasPairs ? pair : Sum);
  }
  Model model = Model::open("grpc:" + missing.place() + "," + placeOf(wrong), within(AWhile));
  const Status none = bindFitting(model, signatureFor);
  EXPECT_EQ(none.code(), Code::Mismatch) << none.toString();
  EXPECT_NE(none.message().find(placeOf(wrong)), std::string::npos) << none.message();
}

TEST(GrpcFleet, WhatWasReadBeforeBindingStaysTrue) {
  ServerThread wrong(AnyPort, stateless(Other, {{"actions", "a,b"}}), answerSum);
  Fleet fleet(1, stateless(Sum, {{"actions", "b,a"}}));
  const std::string both = "grpc:" + placeOf(wrong) + "," + fleet.place(0);
  while (true) { // until the wrong one is asked
    Model model = Model::open(both, within(20s));
    ASSERT_TRUE(model) << model.status().toString();
    if (model.metadata("actions") != "a,b")
      continue;
    const auto signatureFor = [](const Model &) { return Sum; };
    EXPECT_EQ(bindFitting(model, signatureFor).code(), Code::Mismatch);
    EXPECT_EQ(model.metadata("actions"), "a,b");
    break;
  }
}

TEST(GrpcFleet, WhatAPassKnowsOfTheMetadataStaysTrue) {
  Fleet fleet(1, stateless(Sum, {{"actions", "a,b"}, {"mlbridge.made", "yesterday"}}));
  ServerThread changed(AnyPort, stateless(Sum, {{"actions", "b,a"}}), [](Event &event) {
    EXPECT_NE(event.kind(), EventKind::Request) << "the pass means other actions";
  });
  const auto openOurs = [&](const std::string &uri) {
    while (true) { // until the first one is asked
      Model model = Model::open(uri, within(20s));
      if (!model || model.metadata("actions") == "a,b")
        return model;
    }
  };
  Model model = openOurs("grpc:" + fleet.place(0) + "," + placeOf(changed));
  ASSERT_TRUE(model.bind(Sum)) << model.status().toString();
  Runner runner = model.newRunner();
  ASSERT_TRUE(ask(runner));
  fleet.stop(0);
  (void)runner.set("k", int64_t(1));
  const Status status = runner.evaluate(Deadline::after(AWhile));
  EXPECT_EQ(status.code(), Code::Mismatch) << status.toString();
  EXPECT_NE(status.message().find("actions"), std::string::npos) << status.message();
}

TEST(GrpcFleet, MetadataOfWhereAModelComesFromMayDiffer) {
  Fleet old(1, stateless(Sum, {{"actions", "a,b"}, {"mlbridge.made", "yesterday"}}));
  Fleet fresh(1, stateless(Sum, {{"actions", "a,b"}, {"mlbridge.made", "today"}}));
  Runner runner = open("grpc:" + old.place(0) + "," + fresh.place(0), Sum, within(20s));
  ASSERT_TRUE(ask(runner));
  Fleet &first = old.answers(0) ? old : fresh;
  first.stop(0);
  EXPECT_TRUE(ask(runner)) << runner.status().toString();
}

} // namespace
} // namespace mlbridge
