// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Two agents in one pass: the same decisions, which depend on each bit of what the agents see,
// wherever they are, over every transport, whoever drives, in C++ and C.
#include "allocator.h"
#include "choose.h"

#include "testing/server_thread.h"

#include <mlbridge/c/mlbridge.h>
#include <mlbridge/driver.h>

#include <deque>
#include <future>

namespace mlbridge {
namespace {

using namespace testing;

constexpr uint64_t Episodes = 12;

/// The result of a series of episodes.
struct Trajectory {
  std::vector<std::vector<int64_t>> registers;
  std::vector<double> rewards; ///< of both agents
  uint64_t steps = 0;
  bool operator==(const Trajectory &o) const {
    return registers == o.registers && rewards == o.rewards && steps == o.steps;
  }
};

std::string functionName(uint64_t seed) { return "function " + std::to_string(seed); }

Trajectory play(const std::string &uris) {
  Trajectory trajectory;
  Allocator pass;
  Agents agents = Agents::open(pass, uris);
  EXPECT_TRUE(agents) << agents.status().toString();
  for (uint64_t seed = 0; seed < Episodes; ++seed) {
    EpisodeOptions options;
    options.seed = seed;
    options.unit = functionName(seed);
    options.maxSteps = 1000;
    options.checkValues = true;
    const EpisodeResult result = run(pass, agents, options);
    EXPECT_TRUE(result.status) << result.status.toString();
    EXPECT_FALSE(result.truncated);
    trajectory.registers.push_back(pass.ranges().registers);
    trajectory.rewards.insert(trajectory.rewards.end(), result.agentRewards.begin(),
                              result.agentRewards.end());
    trajectory.steps += result.steps;
  }
  return trajectory;
}

const Trajectory &inProcess() {
  static const Trajectory trajectory = [] {
    EXPECT_TRUE(registerChoose("choose"));
    return play("function:choose");
  }();
  return trajectory;
}

std::vector<AgentSpec> specsOf(const Environment &environment) {
  return {environment.agents().begin(), environment.agents().end()};
}

/// The driver's side, as `choose` sees it.
struct Driven {
  Driver &driver;
  const Signature &signature() const { return driver.signature(); }
  TensorView input(size_t index) const { return driver.observation(index); }
};

/// Drives all episodes; the rewards that the driver was told.
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
      driver.action(0).as<int64_t>()[0] = choose(Driven{driver});
      s = driver.step();
    }
    EXPECT_TRUE(s) << s.toString();
    EXPECT_FALSE(driver.isTruncated());
    for (size_t i = 0; i < earned.size(); ++i)
      rewards.push_back(earned[i] + driver.reward(i));
  }
  return rewards;
}

/// The agents of the pass for the C interface.
class SpecsInC {
public:
  SpecsInC() {
    for (const AgentSpec &agent : agents_) {
      const auto tensors = [&](const std::vector<TensorSpec> &specs) {
        auto &list = tensors_.emplace_back();
        for (const TensorSpec &spec : specs)
          list.push_back({sizeof(mlbridge_tensor_spec), spec.name.c_str(),
                          static_cast<mlbridge_type>(spec.type),
                          static_cast<uint32_t>(spec.shape.size()), spec.shape.data(), nullptr});
        return list.data();
      };
      const Signature &s = agent.signature;
      signatures_.push_back({sizeof(mlbridge_signature), tensors(s.inputs), s.inputs.size(),
                             tensors(s.outputs), s.outputs.size()});
      specs_.push_back({sizeof(mlbridge_agent_spec), agent.name.c_str(), &signatures_.back()});
    }
  }
  const mlbridge_agent_spec *data() const { return specs_.data(); }
  size_t size() const { return specs_.size(); }
  const Signature &signature(const char *agent) const {
    return agents_[static_cast<size_t>(findAgent(agents_, agent))].signature;
  }

private:
  const std::vector<AgentSpec> agents_ = specsOf(Allocator());
  std::deque<std::vector<mlbridge_tensor_spec>> tensors_;
  std::deque<mlbridge_signature> signatures_;
  std::vector<mlbridge_agent_spec> specs_;
};

/// The same pass by the C interface.
class PassInC {
public:
  PassInC() {
    const mlbridge_environment_definition definition = {
        sizeof definition, nullptr, specs_.data(), specs_.size(), reset, step, this};
    environment = mlbridge_environment_create(&definition);
  }
  ~PassInC() { mlbridge_environment_destroy(environment); }

  Trajectory play(const std::string &uris) {
    Trajectory trajectory;
    mlbridge_agents *agents = mlbridge_agents_open(environment, uris.c_str(), nullptr);
    EXPECT_EQ(mlbridge_agents_code(agents), MLBRIDGE_OK) << mlbridge_agents_message(agents);
    for (uint64_t seed = 0; seed < Episodes; ++seed) {
      const std::string name = functionName(seed);
      mlbridge_episode_options options = {};
      options.size = sizeof options;
      options.seed = seed;
      options.unit = name.c_str();
      options.max_steps = 1000;
      options.check_values = true;
      mlbridge_episode_result result = {};
      result.size = sizeof result;
      EXPECT_EQ(mlbridge_environment_run(environment, agents, &options, &result), MLBRIDGE_OK)
          << mlbridge_environment_message(environment);
      trajectory.registers.push_back(ranges.registers);
      for (uint64_t i = 0; i < specs_.size(); ++i)
        trajectory.rewards.push_back(mlbridge_environment_total_reward(environment, i));
      trajectory.steps += result.steps;
    }
    mlbridge_agents_close(agents);
    return trajectory;
  }

  mlbridge_environment *environment = nullptr;
  LiveRanges ranges{0};

private:
  static mlbridge_code setMask(mlbridge_runner *to, const std::vector<bool> &mask) {
    const std::vector<uint8_t> bytes(mask.begin(), mask.end());
    return mlbridge_runner_set(to, "action_mask", MLBRIDGE_BOOL, bytes.data(), bytes.size());
  }
  mlbridge_code showRanges(mlbridge_observation *next) {
    mlbridge_runner *to = mlbridge_observation_for_agent(next, Allocator::Range);
    const std::string name = mlbridge_environment_unit(environment);
    const mlbridge_string text = {name.data(), name.size()};
    (void)mlbridge_runner_set(to, "function", MLBRIDGE_STRING, &text, 1);
    (void)mlbridge_runner_set(to, "weights", MLBRIDGE_FLOAT32, ranges.weights.data(),
                              ranges.weights.size());
    const int64_t shape[] = {static_cast<int64_t>(ranges.edges.size() / 2), 2};
    uint64_t count = 0;
    void *edges = mlbridge_runner_resize(to, "edges", MLBRIDGE_INT64, shape, 2, &count);
    EXPECT_EQ(count, ranges.edges.size());
    std::copy(ranges.edges.begin(), ranges.edges.end(), static_cast<int64_t *>(edges));
    return setMask(to, ranges.unallocated());
  }
  static mlbridge_code reset(mlbridge_environment *environment, mlbridge_observation *first,
                             void *data) {
    auto &pass = *static_cast<PassInC *>(data);
    pass.ranges = LiveRanges(mlbridge_environment_seed(environment));
    return pass.showRanges(first);
  }
  static mlbridge_code step(mlbridge_environment *environment, const mlbridge_action *action,
                            mlbridge_observation *next, void *data) {
    auto &pass = *static_cast<PassInC *>(data);
    LiveRanges &ranges = pass.ranges;
    const bool selects = mlbridge_action_agent(action) == Allocator::Range;
    int64_t choice = 0;
    const uint64_t choices = selects ? ranges.weights.size() : size_t{LiveRanges::Choices};
    if (mlbridge_code code = mlbridge_action_choice(action, "choice", choices, &choice); code)
      return code;
    if (selects) {
      pass.range_ = static_cast<size_t>(choice);
      mlbridge_runner *to = mlbridge_observation_for_agent(next, Allocator::Register);
      (void)mlbridge_runner_set(to, "weight", MLBRIDGE_FLOAT32, &ranges.weights[pass.range_], 1);
      return setMask(to, ranges.available(pass.range_));
    }
    ranges.registers[pass.range_] = choice;
    mlbridge_environment_set_reward(
        environment, choice == LiveRanges::Memory ? -double(ranges.weights[pass.range_]) : 0.0);
    if (!ranges.isComplete())
      return pass.showRanges(next);
    mlbridge_environment_set_agent_reward(environment, Allocator::Range, -double(ranges.cost()));
    mlbridge_environment_set_done(environment);
    return MLBRIDGE_OK;
  }

  SpecsInC specs_;
  size_t range_ = 0;
};

/// A policy's inputs by the C interface: those of a call, or a driver's observation.
struct InputsInC {
  const Signature &own;
  std::function<const void *(const char *, mlbridge_type, uint64_t *)> numbers;
  std::function<mlbridge_code(const char *, mlbridge_string *)> text;
  mutable std::string copy = {};

  const Signature &signature() const { return own; }
  TensorView input(size_t index) const {
    const TensorSpec &spec = own.inputs[index];
    if (spec.type == ElementType::String) {
      mlbridge_string bytes = {};
      EXPECT_EQ(text(spec.name.c_str(), &bytes), MLBRIDGE_OK);
      copy.assign(bytes.data, bytes.size);
      return {spec.type, &copy, 1, {}};
    }
    uint64_t count = 0;
    const void *data = numbers(spec.name.c_str(), static_cast<mlbridge_type>(spec.type), &count);
    return {spec.type, const_cast<void *>(data), count, {}};
  }
};

std::vector<double> driveFromC(mlbridge_driver *driver) {
  std::vector<double> rewards;
  const SpecsInC specs;
  for (uint64_t seed = 0; seed < Episodes; ++seed) {
    std::vector<double> earned(mlbridge_driver_agents(driver));
    const std::string name = functionName(seed);
    EXPECT_EQ(mlbridge_driver_reset(driver, name.c_str(), seed), MLBRIDGE_OK)
        << mlbridge_driver_message(driver);
    while (mlbridge_driver_code(driver) == MLBRIDGE_OK && !mlbridge_driver_is_done(driver)) {
      const uint64_t agent = mlbridge_driver_agent(driver);
      earned[agent] += mlbridge_driver_reward(driver, agent);
      const InputsInC inputs = {specs.signature(mlbridge_driver_agent_name(driver, agent)),
                                [&](const char *input, mlbridge_type type, uint64_t *count) {
                                  return mlbridge_driver_observation(driver, input, type, count);
                                },
                                [&](const char *input, mlbridge_string *text) {
                                  return mlbridge_driver_observation_string(driver, input, 0, text);
                                }};
      *static_cast<int64_t *>(mlbridge_driver_action(driver, "choice", MLBRIDGE_INT64, nullptr)) =
          choose(inputs);
      EXPECT_EQ(mlbridge_driver_step(driver), MLBRIDGE_OK) << mlbridge_driver_message(driver);
    }
    for (size_t i = 0; i < earned.size(); ++i)
      rewards.push_back(earned[i] + mlbridge_driver_reward(driver, i));
  }
  return rewards;
}

/// A policy in C: the agent's name and tensors are those of the call.
mlbridge_code answerInC(mlbridge_call *call, void *specs) {
  const InputsInC inputs = {
      static_cast<SpecsInC *>(specs)->signature(mlbridge_call_get_context(call).agent),
      [&](const char *input, mlbridge_type type, uint64_t *count) {
        return mlbridge_call_input(call, input, type, count);
      },
      [&](const char *input, mlbridge_string *text) {
        return mlbridge_call_input_string(call, input, 0, text);
      }};
  *static_cast<int64_t *>(mlbridge_call_output(call, "choice", MLBRIDGE_INT64, nullptr)) =
      choose(inputs);
  return MLBRIDGE_OK;
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
  static mlbridge_server_options optionsInC(const SpecsInC &specs) {
    mlbridge_server_options options = {};
    options.size = sizeof options;
    options.agents = specs.data();
    options.agents_size = specs.size();
    return options;
  }
  TemporaryFolder folder_;
};

TEST_P(Over, AskedAgentsDecideTheSame) {
  ServerOptions options;
  options.agents = specsOf(Allocator());
  ServerThread server(address(), options, answer);
  const std::string uri = withSerdes(server.server().uri());
  EXPECT_TRUE(play(uri) == inProcess());
  EXPECT_TRUE(play("range=function:choose; *=" + uri) == inProcess());
}

TEST_P(Over, ThePassAndTheServerInCDecideTheSame) {
  SpecsInC specs;
  const mlbridge_server_options options = optionsInC(specs);
  mlbridge_server *server = mlbridge_server_listen(address().c_str(), &options);
  ASSERT_EQ(mlbridge_server_code(server), MLBRIDGE_OK) << mlbridge_server_message(server);
  std::thread thread(
      [&] { EXPECT_EQ(mlbridge_server_serve(server, answerInC, &specs), MLBRIDGE_CANCELLED); });
  const std::string uri = withSerdes(mlbridge_server_uri(server));
  EXPECT_TRUE(PassInC().play(uri) == inProcess());
  EXPECT_TRUE(PassInC().play("*=function:choose; register=" + uri) == inProcess());
  EXPECT_TRUE(play(uri) == inProcess());
  EXPECT_GT(mlbridge_server_statistic(server, "replies"), inProcess().steps);
  mlbridge_server_stop(server);
  thread.join();
  mlbridge_server_close(server);
}

TEST_P(Over, ThePassInCIsDrivenFromC) {
  PassInC pass;
  const SpecsInC specs;
  mlbridge_server_options options = optionsInC(specs);
  options.environment = true;
  mlbridge_server *server = mlbridge_server_listen(address().c_str(), &options);
  ASSERT_EQ(mlbridge_server_code(server), MLBRIDGE_OK) << mlbridge_server_message(server);
  mlbridge_serve_result result = {};
  result.size = sizeof result;
  std::thread thread([&] {
    EXPECT_EQ(mlbridge_environment_serve(pass.environment, server, nullptr, nullptr, &result),
              MLBRIDGE_OK)
        << mlbridge_environment_message(pass.environment);
  });
  mlbridge_driver *driver =
      mlbridge_driver_open(withSerdes(mlbridge_server_uri(server)).c_str(), 0);
  EXPECT_EQ(mlbridge_driver_code(driver), MLBRIDGE_OK) << mlbridge_driver_message(driver);
  EXPECT_EQ(driveFromC(driver), inProcess().rewards);
  mlbridge_driver_close(driver);
  thread.join();
  EXPECT_EQ(result.episodes, Episodes);
  EXPECT_EQ(result.steps, inProcess().steps);
  EXPECT_EQ(pass.ranges.registers, inProcess().registers.back());
  mlbridge_server_close(server);
}

TEST_P(Over, DrivenAgentsDecideTheSame) {
  Allocator pass;
  for (const size_t first : {0, 1}) { // both, or one while the other is asked
    ServerOptions options;
    options.environment = true;
    options.agents = specsOf(pass);
    options.agents.erase(options.agents.begin(), options.agents.begin() + static_cast<long>(first));
    Expected<Server> server = Server::listen(address(), options);
    ASSERT_TRUE(server) << server.status().toString();
    Agents others = Agents::open(pass, "function:choose");
    ServeOptions serving;
    serving.maxSteps = 1000;
    auto served =
        std::async(std::launch::async, [&] { return serve(pass, *server, others, serving); });
    std::vector<double> rewards;
    {
      Expected<Driver> driver = Driver::open(withSerdes(server->uri()));
      ASSERT_TRUE(driver) << driver.status().toString();
      ASSERT_EQ(driver->agents().size(), 2 - first);
      rewards = drive(*driver);
    }
    const ServeResult result = served.get();
    EXPECT_TRUE(result.status) << result.status.toString();
    EXPECT_EQ(result.episodes, Episodes);
    EXPECT_EQ(pass.ranges().registers, inProcess().registers.back());
    std::vector<double> expected;
    for (size_t i = 0; i < inProcess().rewards.size(); ++i)
      if (i % 2 >= first)
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

TEST(TwoAgents, DecideTheSameInC) {
  const Trajectory &expected = inProcess(); // which registers the function, too
  EXPECT_TRUE(PassInC().play("function:choose") == expected);
}

TEST(TwoAgents, BothEarn) {
  const Trajectory &played = inProcess();
  EXPECT_GT(played.steps, Episodes * 12);
  for (const size_t agent : {0, 1}) {
    bool hasEarned = false;
    for (size_t i = agent; i < played.rewards.size(); i += 2)
      hasEarned = hasEarned || played.rewards[i] != 0;
    EXPECT_TRUE(hasEarned) << agent;
  }
}

} // namespace
} // namespace mlbridge
