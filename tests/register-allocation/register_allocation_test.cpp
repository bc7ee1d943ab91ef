// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Four agents in one pass: the same observations and actions, bit by bit, wherever the agents are,
// over every transport, whoever drives.
#include "allocator.h"
#include "policies.h"

#include "testing/server_thread.h"

#include <mlbridge/driver.h>

#include <future>

namespace mlbridge {
namespace {

using namespace testing;
using namespace std::chrono_literals;

constexpr uint64_t Episodes = 12;

/// What a series of episodes came to.
struct Trajectory {
  std::vector<uint64_t> traces; ///< a hash of all observations and actions of an episode
  std::vector<double> rewards;  ///< of all agents
  uint64_t steps = 0;
  bool operator==(const Trajectory &o) const {
    return traces == o.traces && rewards == o.rewards && steps == o.steps;
  }
};

std::string functionName(uint64_t seed) { return "function " + std::to_string(seed); }

Trajectory play(const std::string &uris) {
  Trajectory trajectory;
  RegisterAllocator pass;
  Agents agents = Agents::open(pass, uris);
  EXPECT_TRUE(agents) << agents.status().toString();
  for (uint64_t seed = 0; seed < Episodes; ++seed) {
    EpisodeOptions options;
    options.seed = seed;
    options.context = functionName(seed);
    options.maxSteps = 1000;
    options.checkValues = true;
    const EpisodeResult result = run(pass, agents, options);
    EXPECT_TRUE(result.status) << result.status.toString();
    EXPECT_FALSE(result.truncated);
    trajectory.traces.push_back(pass.allocation().trace);
    trajectory.rewards.insert(trajectory.rewards.end(), result.agentRewards.begin(),
                              result.agentRewards.end());
    trajectory.steps += result.steps;
  }
  return trajectory;
}

const Trajectory &inProcess() {
  static const Trajectory trajectory = [] {
    EXPECT_TRUE(policies::registerAs("register-allocation"));
    return play("function:register-allocation");
  }();
  return trajectory;
}

/// The driver's side: what the policies see of it.
struct Driven {
  Driver &driver;
  const Signature &signature() const { return driver.signature(); }
  TensorView input(size_t index) const { return driver.observation(index); }
};

/// Drives all episodes with the policies; what the driver was told of rewards.
std::vector<double> drive(Driver &driver) {
  std::vector<double> rewards;
  for (uint64_t seed = 0; seed < Episodes; ++seed) {
    std::vector<double> earned(driver.agents().size());
    Status s = driver.reset(functionName(seed), seed);
    // The end of the last driver may not have been seen yet.
    while (s.code() == Code::Busy)
      s = driver.reset(functionName(seed), seed);
    while (s.isOk() && !driver.isDone()) {
      const size_t agent = driver.agent();
      earned[agent] += driver.reward(agent);
      driver.action(0).as<int64_t>()[0] =
          policies::decide(Driven{driver}, driver.agents()[agent].name);
      s = driver.step();
    }
    EXPECT_TRUE(s) << s.toString();
    EXPECT_FALSE(driver.isTruncated());
    for (size_t i = 0; i < earned.size(); ++i)
      rewards.push_back(earned[i] + driver.reward(i));
  }
  return rewards;
}

class Over : public ::testing::TestWithParam<std::pair<const char *, const char *>> {
protected:
  void SetUp() override { (void)inProcess(); }
  std::string address() const {
    const std::string kind = GetParam().first;
    return kind == "grpc"         ? std::string("grpc:localhost:0")
           : kind == "rendezvous" ? "pipe:" + folder_ / "s/"
                                  : kind + ":" + folder_ / "s";
  }
  static std::string withSerdes(const std::string &uri) {
    return uri + "?serdes=" + GetParam().second;
  }
  static std::vector<AgentSpec> agentsOf(const Environment &environment) {
    return {environment.agents().begin(), environment.agents().end()};
  }
  TemporaryFolder folder_;
};

TEST_P(Over, AskedAgentsDecideTheSame) {
  ServerOptions options;
  options.agents = agentsOf(RegisterAllocator());
  ServerThread server(address(), options, policies::answer);
  EXPECT_TRUE(play(withSerdes(server.server().uri())) == inProcess());
  EXPECT_TRUE(play("select_node=function:register-allocation; split_node=function:"
                   "register-allocation; *=" +
                   withSerdes(server.server().uri())) == inProcess());
}

TEST_P(Over, DrivenAgentsDecideTheSame) {
  RegisterAllocator pass;
  for (const size_t first : {0, 2}) { // all, or the later ones while the others are asked
    ServerOptions options;
    options.environment = true;
    options.agents = agentsOf(pass);
    options.agents.erase(options.agents.begin(), options.agents.begin() + static_cast<long>(first));
    Expected<Server> server = Server::listen(address(), options);
    ASSERT_TRUE(server) << server.status().toString();
    Agents others = Agents::open(pass, "function:register-allocation");
    ServeOptions serving;
    serving.maxSteps = 1000;
    auto served =
        std::async(std::launch::async, [&] { return serve(pass, *server, others, serving); });
    std::vector<double> rewards;
    {
      Expected<Driver> driver = Driver::open(withSerdes(server->uri()));
      ASSERT_TRUE(driver) << driver.status().toString();
      ASSERT_EQ(driver->agents().size(), 4 - first);
      rewards = drive(*driver);
    }
    const ServeResult result = served.get();
    EXPECT_TRUE(result.status) << result.status.toString();
    EXPECT_EQ(result.episodes, Episodes);
    EXPECT_EQ(pass.allocation().trace, inProcess().traces.back());
    std::vector<double> expected;
    for (size_t i = 0; i < inProcess().rewards.size(); ++i)
      if (i % 4 >= first)
        expected.push_back(inProcess().rewards[i]);
    EXPECT_EQ(rewards, expected);
  }
}

INSTANTIATE_TEST_SUITE_P(All, Over,
                         ::testing::Values(std::pair("unix", "bitstream"),
                                           std::pair("unix", "json"), std::pair("shm", "bitstream"),
                                           std::pair("pipe", "bitstream"),
                                           std::pair("rendezvous", "json")
#ifdef MLBRIDGE_TEST_GRPC
                                               ,
                                           std::pair("grpc", "bitstream")
#endif
                                               ),
                         [](const auto &info) {
                           return std::string(info.param.first) + "_" + info.param.second;
                         });

TEST(RegisterAllocation, UsesAllFourAgents) {
  const Trajectory &played = inProcess();
  EXPECT_GT(played.steps, Episodes * 18);
  for (size_t agent : {0, 2, 3}) {
    bool earned = false;
    for (size_t i = agent; i < played.rewards.size(); i += 4)
      earned = earned || played.rewards[i] != 0;
    EXPECT_TRUE(earned) << agent;
  }
}

} // namespace
} // namespace mlbridge
