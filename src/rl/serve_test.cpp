// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Environments that are driven from outside, over every transport and serdes.
#include "testing/sum_server.h"

#include <mlbridge/driver.h>
#include <mlbridge/environment.h>

#include <future>

namespace mlbridge {
namespace {

using namespace testing;
using namespace std::chrono_literals;

const Signature Countdown{{TensorSpec::of<int64_t>("left"),
                           TensorSpec::of<float>("trace", {Dynamic}),
                           TensorSpec::of<std::string>("about")},
                          {TensorSpec::of<int64_t>("take"), TensorSpec::of<float>("why", {2})}};

/// Counts down from the seed by what the driver takes.
class CountdownEnvironment final : public Environment {
public:
  const Signature &signature() const override { return Countdown; }
  Status reset(Observation &first) override {
    if (unit() == "broken")
      return Status(Code::NotFound, "there is no module 'broken'");
    left_ = static_cast<int64_t>(seed());
    trace_.clear();
    if (left_ == 0)
      setDone();
    return show(first);
  }
  Status step(const Action &action, Observation &next) override {
    const int64_t take = *action.get<int64_t>("take");
    if (take <= 0)
      return Status(Code::PolicyFailed, "cannot take " + std::to_string(take));
    left_ -= take;
    trace_.push_back(action.all<float>("why")[1]);
    setReward(static_cast<double>(take) / 2);
    if (left_ <= 0)
      setDone();
    return show(next);
  }
  int64_t left() const { return left_; }

private:
  Status show(Observation &to) {
    (void)to.set("left", left_);
    Expected<Span<float>> trace = to.resize<float>("trace", {static_cast<int64_t>(trace_.size())});
    if (!trace)
      return trace.status();
    std::copy(trace_.begin(), trace_.end(), trace->begin());
    return to.set("about", unit());
  }
  int64_t left_ = 0;
  std::vector<float> trace_;
};

class DriverOver : public ::testing::TestWithParam<std::pair<const char *, const char *>> {
protected:
  void SetUp() override { listen(); }
  void listen() {
    ServerOptions options;
    options.signature = Countdown;
    options.environment = true;
    options.metadata = {{"actions", "7"}};
    Expected<Server> server = Server::listen(address(), options);
    ASSERT_TRUE(server) << server.status().toString();
    server_ = std::make_unique<Server>(std::move(*server));
  }
  void serveInBackground(ServeOptions options = {}) {
    result_ = std::async(std::launch::async,
                         [this, options] { return serve(environment_, *server_, options); });
  }
  void TearDown() override {
    if (result_.valid()) {
      server_->stop();
      result_.wait();
    }
  }
  std::string address() const { return addressOf(GetParam().first, folder_); }
  std::string uri() const { return address() + "?serdes=" + GetParam().second; }

  TemporaryFolder folder_;
  CountdownEnvironment environment_;
  std::unique_ptr<Server> server_;
  std::future<ServeResult> result_;
};

TEST_P(DriverOver, DrivesEpisodesToTheirEnd) {
  serveInBackground();
  {
    Expected<Driver> driver = Driver::open(uri());
    ASSERT_TRUE(driver) << driver.status().toString();
    EXPECT_EQ(driver->signature(), Countdown);
    EXPECT_EQ(driver->metadata().at("actions"), "7");
    for (uint64_t seed : {3u, 5u}) {
      Status s = driver->reset("module " + std::to_string(seed), seed);
      ASSERT_TRUE(s) << s.toString();
      EXPECT_EQ(driver->observation<int64_t>("left")[0], int64_t(seed));
      EXPECT_EQ(driver->observation<std::string>("about")[0], "module " + std::to_string(seed));
      for (uint64_t i = 0; i < seed; ++i) {
        ASSERT_FALSE(driver->isDone());
        driver->action<int64_t>("take")[0] = 1;
        driver->action<float>("why")[1] = static_cast<float>(i);
        s = driver->step();
        ASSERT_TRUE(s) << s.toString();
        EXPECT_EQ(driver->reward(), 0.5);
        if (i + 1 < seed) {
          EXPECT_EQ(driver->observation<int64_t>("left")[0], int64_t(seed - i - 1));
          ASSERT_EQ(driver->observation<float>("trace").size(), i + 1);
          EXPECT_EQ(driver->observation<float>("trace")[i], static_cast<float>(i));
        }
      }
      EXPECT_TRUE(driver->isDone());
      EXPECT_FALSE(driver->isTruncated());
      EXPECT_EQ(driver->observation<int64_t>("left")[0], 0);
      EXPECT_EQ(driver->observation<float>("trace").size(), seed);
      EXPECT_EQ(driver->steps(), seed);
      EXPECT_EQ(driver->step().code(), Code::InvalidArgument);
    }
    ASSERT_TRUE(driver->reset({}, 0));
    EXPECT_TRUE(driver->isDone());
  }
  const ServeResult result = result_.get();
  EXPECT_TRUE(result.status) << result.status.toString();
  EXPECT_EQ(result.episodes, 3u);
  EXPECT_EQ(result.steps, 8u);
}

TEST_P(DriverOver, ResetsInMidEpisode) {
  serveInBackground();
  Expected<Driver> driver = Driver::open(uri());
  ASSERT_TRUE(driver) << driver.status().toString();
  for (int i = 0; i < 3; ++i) {
    ASSERT_TRUE(driver->reset("m", 9));
    driver->action<int64_t>("take")[0] = 2;
    ASSERT_TRUE(driver->step());
    EXPECT_EQ(driver->observation<int64_t>("left")[0], 7);
  }
}

TEST_P(DriverOver, IsToldWhatTheEnvironmentFailsWithAndGoesOn) {
  serveInBackground();
  Expected<Driver> driver = Driver::open(uri());
  ASSERT_TRUE(driver) << driver.status().toString();
  Status s = driver->reset("broken");
  EXPECT_EQ(s.code(), Code::NotFound) << s.toString();
  EXPECT_NE(s.message().find("no module 'broken'"), std::string::npos) << s.toString();
  ASSERT_TRUE(driver->reset("m", 3));
  driver->action<int64_t>("take")[0] = -4;
  s = driver->step();
  EXPECT_EQ(s.code(), Code::PolicyFailed) << s.toString();
  EXPECT_NE(s.message().find("cannot take -4"), std::string::npos) << s.toString();
  EXPECT_EQ(driver->step().code(), Code::InvalidArgument);
  ASSERT_TRUE(driver->reset("m", 2));
  EXPECT_EQ(driver->observation<int64_t>("left")[0], 2);
}

TEST_P(DriverOver, IsRefusedWhereAModelIsServedAndTheOtherWayRound) {
  serveInBackground();
  const Model model = Model::open(uri());
  EXPECT_EQ(model.status().code(), Code::Mismatch) << model.status().toString();

  TemporaryFolder folder;
  const std::string address = addressOf(GetParam().first, folder);
  ServerThread other(address, serving(Sum), answerSum);
  const Expected<Driver> driver = Driver::open(address + "?serdes=" + GetParam().second);
  ASSERT_FALSE(driver);
  EXPECT_EQ(driver.status().code(), Code::Mismatch) << driver.status().toString();
}

TEST_P(DriverOver, AnotherFollowsOneThatLeftInMidEpisode) {
  ServeOptions options;
  options.keepServing = true;
  serveInBackground(options);
  for (int i = 0; i < 3; ++i) {
    Expected<Driver> driver = Driver::open(uri() + "&wait=5s");
    ASSERT_TRUE(driver) << driver.status().toString();
    Status s = driver->reset("m", 9);
    // The end of the last driver may not have been seen yet.
    for (int tries = 0; s.code() == Code::Busy && tries < 1000; ++tries)
      s = driver->reset("m", 9);
    ASSERT_TRUE(s) << s.toString();
    driver->action<int64_t>("take")[0] = 2;
    ASSERT_TRUE(driver->step());
  }
  server_->stop();
  const ServeResult result = result_.get();
  EXPECT_EQ(result.status.code(), Code::Cancelled) << result.status.toString();
  EXPECT_EQ(result.episodes, 3u);
}

TEST_P(DriverOver, GivesUpAfterItsDeadline) {
  // Nobody calls serve, so that nobody answers.
  const Expected<Driver> driver = Driver::open(uri() + "&deadline=50ms");
  EXPECT_EQ(driver.status().code(), Code::DeadlineExceeded) << driver.status().toString();
}

TEST_P(DriverOver, NobodyComes) {
  ServeOptions options;
  options.idle = 20ms;
  EXPECT_EQ(serve(environment_, *server_, options).status.code(), Code::DeadlineExceeded);
}

TEST_P(DriverOver, TheLimitOnStepsEndsTheEpisode) {
  ServeOptions options;
  options.maxSteps = 2;
  serveInBackground(options);
  Expected<Driver> driver = Driver::open(uri());
  ASSERT_TRUE(driver) << driver.status().toString();
  ASSERT_TRUE(driver->reset("m", 9));
  driver->action<int64_t>("take")[0] = 1;
  ASSERT_TRUE(driver->step());
  EXPECT_FALSE(driver->isDone());
  EXPECT_FALSE(driver->showLast(0)) << "there is no last one yet";
  ASSERT_TRUE(driver->step());
  EXPECT_TRUE(driver->isDone());
  EXPECT_TRUE(driver->isTruncated());
  EXPECT_EQ(driver->reward(), 0.5);
  EXPECT_TRUE(driver->showLast(0));
  EXPECT_FALSE(driver->showLast(1));
  EXPECT_EQ(driver->observation<int64_t>("left")[0], 7);
  EXPECT_EQ(driver->observation<float>("trace").size(), 2u);
  EXPECT_EQ(driver->observation<std::string>("about")[0], "m");
  ASSERT_TRUE(driver->reset("m", 1));
  EXPECT_FALSE(driver->isTruncated());
  EXPECT_EQ(driver->observation<int64_t>("left")[0], 1);
  ASSERT_TRUE(driver->step());
  EXPECT_TRUE(driver->isDone());
  EXPECT_FALSE(driver->isTruncated()) << "its own end";
}

/// Ends as its driver says: 0 not, 1 done, 2 truncated, 3 truncated with an observation.
class AsToldEnvironment final : public Environment {
public:
  const Signature &signature() const override { return signature_; }
  Status reset(Observation &first) override { return first.set("x", int64_t{7}); }
  Status step(const Action &action, Observation &next) override {
    const int64_t how = *action.get<int64_t>("how");
    if (how == 1)
      setDone();
    if (how >= 2)
      setTruncated();
    return how == 0 || how == 3 ? next.set("x", 10 + how) : Status();
  }

private:
  Signature signature_{{TensorSpec::of<int64_t>("x")}, {TensorSpec::of<int64_t>("how")}};
};

TEST(Driver, SeesWhatIsWrittenAtTheEndAndNothingElse) {
  TemporaryFolder folder;
  AsToldEnvironment environment;
  ServerOptions options;
  options.signature = environment.signature();
  options.environment = true;
  Expected<Server> server = Server::listen("unix:" + (folder / "s"), options);
  ASSERT_TRUE(server) << server.status().toString();
  auto result = std::async(std::launch::async, [&] { return serve(environment, *server, {}); });
  {
    Expected<Driver> driver = Driver::open(server->uri());
    ASSERT_TRUE(driver);
    const auto stepped = [&](int64_t how) {
      driver->action<int64_t>("how")[0] = how;
      const Status s = driver->step();
      EXPECT_TRUE(s) << s.toString();
      const Span<const int64_t> x = driver->observation<int64_t>("x");
      return std::tuple(driver->isDone(), driver->isTruncated(), x.empty() ? -1 : x[0]);
    };
    for (const int64_t how : {3, 1, 2, 3, 1}) {
      ASSERT_TRUE(driver->reset("m", 9));
      EXPECT_EQ(stepped(0), std::tuple(false, false, 10));
      EXPECT_EQ(stepped(how), std::tuple(true, how != 1, how == 3 ? 13 : -1));
    }
  }
  EXPECT_TRUE(result.get().status);
}

TEST(Driver, ASecondOneIsToldThatTheEnvironmentIsBusy) {
  TemporaryFolder folder;
  ServerOptions options;
  options.signature = Countdown;
  options.environment = true;
  Expected<Server> server = Server::listen("unix:" + (folder / "s"), options);
  ASSERT_TRUE(server) << server.status().toString();
  CountdownEnvironment environment;
  auto result = std::async(std::launch::async, [&] { return serve(environment, *server, {}); });
  {
    Expected<Driver> first = Driver::open("unix:" + (folder / "s"));
    Expected<Driver> second = Driver::open("unix:" + (folder / "s"));
    ASSERT_TRUE(first && second);
    ASSERT_TRUE(first->reset("m", 9));
    EXPECT_EQ(second->reset("m", 9).code(), Code::Busy);
    first->action<int64_t>("take")[0] = 9;
    ASSERT_TRUE(first->step());
    ASSERT_TRUE(first->isDone());
    EXPECT_TRUE(second->reset("m", 9));
  }
  server->stop();
  (void)result.get();
}

/// A seed as large as any observation.
class LargeEnvironment final : public Environment {
public:
  const Signature &signature() const override { return signature_; }
  Status reset(Observation &first) override {
    first.input<uint8_t>("x")[Size - 1] = 1;
    return Status();
  }
  Status step(const Action &, Observation &next) override {
    next.input<uint8_t>("x")[Size - 1] = 2;
    setTruncated();
    return Status();
  }
  static constexpr size_t Size = 20 << 20;

private:
  Signature signature_{{TensorSpec::of<uint8_t>("x", {Size})}, {TensorSpec::of<int64_t>("a")}};
};

TEST(Driver, SeesALargeLastObservation) {
  TemporaryFolder folder;
  LargeEnvironment environment;
  ServerOptions options;
  options.signature = environment.signature();
  options.environment = true;
  Expected<Server> server = Server::listen("unix:" + (folder / "s"), options);
  ASSERT_TRUE(server) << server.status().toString();
  auto result = std::async(std::launch::async, [&] { return serve(environment, *server, {}); });
  {
    Expected<Driver> driver = Driver::open(server->uri());
    ASSERT_TRUE(driver);
    ASSERT_TRUE(driver->reset());
    EXPECT_EQ(driver->observation<uint8_t>("x")[LargeEnvironment::Size - 1], 1);
    const Status s = driver->step();
    ASSERT_TRUE(s) << s.toString();
    EXPECT_TRUE(driver->isTruncated());
    ASSERT_TRUE(driver->showLast(0));
    EXPECT_EQ(driver->observation<uint8_t>("x")[LargeEnvironment::Size - 1], 2);
  }
  EXPECT_TRUE(result.get().status);
}

/// Two agents in turn. On its last step the second writes for both.
class PairEnvironment final : public Environment {
public:
  Span<const AgentSpec> agents() const override { return agents_; }
  Status reset(Observation &first) override {
    steps_ = 0;
    return first.forAgent(0).set("x", int64_t{100});
  }
  Status step(const Action &action, Observation &next) override {
    const size_t other = 1 - action.agent();
    setReward(0, 1);
    if (++steps_ == 4) {
      setDone();
      (void)next.forAgent(size_t(0)).set("x", int64_t{4});
      return next.forAgent(1).set("y", {0.5F, 4.0F});
    }
    return other ? next.forAgent(1).set("y", {0.5F, float(steps_)})
                 : next.forAgent(size_t(0)).set("x", steps_);
  }

private:
  int64_t steps_ = 0;
  std::vector<AgentSpec> agents_ = {
      {"even", {{TensorSpec::of<int64_t>("x")}, {TensorSpec::of<int64_t>("a")}}},
      {"odd", {{TensorSpec::of<float>("y", {2})}, {TensorSpec::of<float>("b", {3})}}}};
};

TEST(Driver, SeesWhatEachOfSeveralAgentsIsGivenAtTheEnd) {
  TemporaryFolder folder;
  PairEnvironment environment;
  for (const uint32_t limit : {0u, 2u, 3u}) {
    ServerOptions options;
    options.agents.assign(environment.agents().begin(), environment.agents().end());
    options.environment = true;
    Expected<Server> server = Server::listen("unix:" + (folder / "s"), options);
    ASSERT_TRUE(server) << server.status().toString();
    ServeOptions serving;
    serving.maxSteps = limit;
    auto result =
        std::async(std::launch::async, [&] { return serve(environment, *server, serving); });
    {
      Expected<Driver> driver = Driver::open(server->uri());
      ASSERT_TRUE(driver);
      for (int episode = 0; episode < 2; ++episode) {
        ASSERT_TRUE(driver->reset());
        while (!driver->isDone())
          ASSERT_TRUE(driver->step());
        const uint64_t steps = limit ? limit : 4;
        EXPECT_EQ(driver->steps(), steps);
        EXPECT_EQ(driver->isTruncated(), limit != 0);
        EXPECT_EQ(driver->agent(), limit == 3 ? 0u : 1u) << "who acted last";
        EXPECT_EQ(driver->reward(0), limit == 3 ? 1 : 2) << "since it acted";
        EXPECT_EQ(driver->showLast(0), limit != 3);
        if (limit != 3) {
          EXPECT_EQ(driver->observation<int64_t>("x")[0], int64_t(steps));
        }
        EXPECT_EQ(driver->showLast(1), limit != 2);
        EXPECT_EQ(driver->agent(), 1u);
        if (limit != 2) {
          EXPECT_EQ(driver->observation<float>("y")[1], float(steps));
        }
      }
    }
    EXPECT_TRUE(result.get().status);
  }
}

INSTANTIATE_TEST_SUITE_P(
    All, DriverOver,
    ::testing::Values(std::pair("shm", "bitstream"), std::pair("unix", "bitstream"),
                      std::pair("pipe", "bitstream"), std::pair("unix", "json"),
                      std::pair("rendezvous", "bitstream")),
    [](const auto &info) { return std::string(info.param.first) + "_" + info.param.second; });

} // namespace
} // namespace mlbridge
