// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Four agents in one pass: the same observations and actions, bit by bit, wherever the agents are,
// over every transport, whoever drives.
#include "allocator.h"
#include "allocator_c.h"
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
    while (s.ok() && !driver.isDone()) {
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

/// The same pass, written in C.
struct InC {
  InC() { allocator_begin(&pass); }
  ~InC() { allocator_end(&pass); }
  Trajectory play(const std::string &uris) {
    Trajectory trajectory;
    mlbridge_agents *agents = mlbridge_agents_open(pass.environment, uris.c_str(), nullptr);
    EXPECT_EQ(mlbridge_agents_code(agents), MLBRIDGE_OK) << mlbridge_agents_message(agents);
    for (uint64_t seed = 0; seed < Episodes; ++seed) {
      const std::string function = functionName(seed);
      mlbridge_episode_options options = {};
      options.size = sizeof options;
      options.seed = seed;
      options.context = function.c_str();
      options.max_steps = 1000;
      options.check_values = true;
      mlbridge_episode_result result = {};
      result.size = sizeof result;
      EXPECT_EQ(mlbridge_environment_run(pass.environment, agents, &options, &result), MLBRIDGE_OK)
          << mlbridge_environment_message(pass.environment);
      trajectory.traces.push_back(pass.allocation.trace);
      for (uint64_t i = 0; i < AllocatorAgents; ++i)
        trajectory.rewards.push_back(mlbridge_environment_total_reward(pass.environment, i));
      trajectory.steps += result.steps;
    }
    mlbridge_agents_close(agents);
    return trajectory;
  }
  Allocator pass;
};

/// What a driver in C sees.
struct DrivenFromC {
  mlbridge_driver *driver;
  std::vector<AgentSpec> specs;
  const Signature &signature() const { return specs[mlbridge_driver_agent(driver)].signature; }
  TensorView input(size_t index) const {
    const TensorSpec &spec = signature().inputs[index];
    uint64_t count = 0;
    const void *data = mlbridge_driver_observation(driver, spec.name.c_str(),
                                                   static_cast<mlbridge_type>(spec.type), &count);
    return {spec.type, const_cast<void *>(data), count, {}};
  }
};

std::vector<double> driveFromC(mlbridge_driver *driver, std::vector<AgentSpec> specs) {
  std::vector<double> rewards;
  const DrivenFromC driven{driver, std::move(specs)};
  for (uint64_t seed = 0; seed < Episodes; ++seed) {
    std::vector<double> earned(mlbridge_driver_agents(driver));
    const std::string function = functionName(seed);
    EXPECT_EQ(mlbridge_driver_reset(driver, function.c_str(), seed), MLBRIDGE_OK)
        << mlbridge_driver_message(driver);
    while (mlbridge_driver_code(driver) == MLBRIDGE_OK && !mlbridge_driver_is_done(driver)) {
      const uint64_t agent = mlbridge_driver_agent(driver);
      const char *output = mlbridge_driver_signature(driver, agent)->outputs[0].name;
      earned[agent] += mlbridge_driver_reward(driver, agent);
      const int64_t choice = policies::decide(driven, mlbridge_driver_agent_name(driver, agent));
      *static_cast<int64_t *>(mlbridge_driver_action(driver, output, MLBRIDGE_INT64, nullptr)) =
          choice;
      EXPECT_EQ(mlbridge_driver_step(driver), MLBRIDGE_OK) << mlbridge_driver_message(driver);
    }
    for (size_t i = 0; i < earned.size(); ++i)
      rewards.push_back(earned[i] + mlbridge_driver_reward(driver, i));
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

/// A policy in C: the agent's name and tensors are those of the call.
mlbridge_code answerInC(mlbridge_call *call, void *) {
  struct Seen {
    mlbridge_call *call;
    const Signature &own;
    const Signature &signature() const { return own; }
    TensorView input(size_t index) const {
      const TensorSpec &spec = own.inputs[index];
      uint64_t count = 0;
      const void *data = mlbridge_call_input(call, spec.name.c_str(),
                                             static_cast<mlbridge_type>(spec.type), &count);
      return {spec.type, const_cast<void *>(data), count, {}};
    }
  };
  const RegisterAllocator pass;
  const std::string agent = mlbridge_call_agent(call);
  const int number = findAgent(pass.agents(), agent);
  if (number < 0)
    return mlbridge_call_fail(call, MLBRIDGE_INTERNAL, "an agent that is none");
  const Signature &own = pass.agents()[static_cast<size_t>(number)].signature;
  auto *choice = static_cast<int64_t *>(
      mlbridge_call_output(call, own.outputs[0].name.c_str(), MLBRIDGE_INT64, nullptr));
  *choice = policies::decide(Seen{call, own}, agent);
  return MLBRIDGE_OK;
}

TEST_P(Over, ThePassAndTheServerInCDecideTheSame) {
  mlbridge_server_options options = {};
  options.size = sizeof options;
  options.agents = allocator_agents();
  options.agents_size = AllocatorAgents;
  mlbridge_server *server = mlbridge_server_listen(address().c_str(), &options);
  ASSERT_EQ(mlbridge_server_code(server), MLBRIDGE_OK) << mlbridge_server_message(server);
  std::thread thread(
      [&] { EXPECT_EQ(mlbridge_server_serve(server, answerInC, nullptr), MLBRIDGE_CANCELLED); });
  const std::string uri = withSerdes(mlbridge_server_uri(server));
  EXPECT_TRUE(InC().play(uri) == inProcess());
  EXPECT_TRUE(InC().play("*=function:register-allocation; colour_node=" + uri) == inProcess());
  EXPECT_TRUE(play(uri) == inProcess());
  EXPECT_GT(mlbridge_server_statistic(server, "replies"), inProcess().steps);
  mlbridge_server_stop(server);
  thread.join();
  mlbridge_server_close(server);
}

TEST_P(Over, ThePassInCIsDrivenFromC) {
  InC pass;
  mlbridge_server_options options = {};
  options.size = sizeof options;
  options.agents = allocator_agents();
  options.agents_size = AllocatorAgents;
  options.environment = true;
  mlbridge_server *server = mlbridge_server_listen(address().c_str(), &options);
  ASSERT_EQ(mlbridge_server_code(server), MLBRIDGE_OK) << mlbridge_server_message(server);
  mlbridge_serve_result result = {};
  result.size = sizeof result;
  std::thread thread([&] {
    EXPECT_EQ(mlbridge_environment_serve(pass.pass.environment, server, nullptr, nullptr, &result),
              MLBRIDGE_OK)
        << mlbridge_environment_message(pass.pass.environment);
  });
  mlbridge_driver *driver =
      mlbridge_driver_open(withSerdes(mlbridge_server_uri(server)).c_str(), 0);
  EXPECT_EQ(mlbridge_driver_code(driver), MLBRIDGE_OK) << mlbridge_driver_message(driver);
  EXPECT_EQ(driveFromC(driver, agentsOf(RegisterAllocator())), inProcess().rewards);
  mlbridge_driver_close(driver);
  thread.join();
  EXPECT_EQ(result.episodes, Episodes);
  EXPECT_EQ(result.steps, inProcess().steps);
  EXPECT_EQ(pass.pass.allocation.trace, inProcess().traces.back());
  mlbridge_server_close(server);
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

TEST(RegisterAllocation, IsTheSameInC) {
  const Trajectory &expected = inProcess();
  EXPECT_TRUE(InC().play("function:register-allocation") == expected);
}

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
