// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Episodes in process: the library's asking loop, and the same work by a loop written by hand, in
// turns. Prints nanoseconds for each step of both, as JSON.
#include "../timed.h"

#include <mlbridge/environment.h>
#include <mlbridge/function.h>

#include <algorithm>
#include <vector>

using namespace mlbridge;

namespace {

constexpr int Episodes = 1000, Steps = 200, Rounds = 9;
constexpr size_t Features = 16;

/// What the pass itself does: two agents in turn, each with features of its own.
struct Work {
  uint64_t state = 0;
  int steps = 0;
  void begin(uint64_t seed) {
    state = seed * 2 + 1;
    steps = 0;
  }
  /// True if this was the last step.
  bool apply(int64_t action) {
    state = state * 6364136223846793005U + static_cast<uint64_t>(action);
    return ++steps == Steps;
  }
  void show(Span<float> to) const {
    for (size_t i = 0; i < to.size(); ++i)
      to[i] = static_cast<float>(state >> (i + 40));
  }
};

std::vector<AgentSpec> agentSpecs(size_t count) {
  std::vector<AgentSpec> specs;
  for (size_t i = 0; i < count; ++i)
    specs.push_back(
        {"agent " + std::to_string(i),
         {{TensorSpec::of<float>("features", {Features})}, {TensorSpec::of<int64_t>("action")}}});
  return specs;
}

class Pass final : public Environment {
public:
  explicit Pass(size_t count) : specs_(agentSpecs(count)) {}
  Span<const AgentSpec> agents() const override { return specs_; }
  Status reset(Observation &first) override {
    work.begin(seed());
    work.show(first.input<float>("features"));
    return Status();
  }
  Status step(const Action &action, Observation &next) override {
    setReward(1);
    if (work.apply(action.all<int64_t>("action")[0])) {
      setDone();
      return Status();
    }
    work.show(next.forAgent((action.agent() + 1) % specs_.size()).input<float>("features"));
    return Status();
  }
  Work work;

private:
  std::vector<AgentSpec> specs_;
};

double nanoseconds(bench::Clock::time_point since) {
  return bench::milliseconds(since) * 1e6 / (double(Episodes) * Steps);
}

double ofLibrary(Pass &pass, Agents &agents, const EpisodeOptions &given, uint64_t &state) {
  EpisodeOptions options = given;
  const auto begin = bench::Clock::now();
  for (int episode = 0; episode < Episodes; ++episode) {
    options.seed = static_cast<uint64_t>(episode);
    if (!run(pass, agents, options).status)
      return -1;
    state += pass.work.state;
  }
  return nanoseconds(begin);
}

double byHand(Agents &agents, size_t count, uint64_t &state) {
  Work work;
  const auto begin = bench::Clock::now();
  for (int episode = 0; episode < Episodes; ++episode) {
    work.begin(static_cast<uint64_t>(episode));
    work.show(agents.runner(0).input<float>("features"));
    for (size_t agent = 0;;) {
      Runner &runner = agents.runner(agent);
      if (!runner.evaluate())
        return -1;
      if (work.apply(runner.output<int64_t>("action")[0]))
        break;
      agent = (agent + 1) % count;
      work.show(agents.runner(agent).input<float>("features"));
    }
    state += work.state;
  }
  return nanoseconds(begin);
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

Status policy(FunctionCall &call) {
  call.output(0).as<int64_t>()[0] = static_cast<int64_t>(call.input(0).as<float>()[3]);
  return Status();
}

} // namespace

int main() {
  const auto factory = [](const Uri &) { return FunctionModel{{}, {}, [] { return policy; }}; };
  if (const Status registered = registerFunction("policy", factory); !registered)
    bench::fail(registered.toString());
  std::printf("[");
  const char *separator = "";
  for (const size_t count : {1, 2, 4}) {
    for (const bool timed : {false, true}) {
      Pass pass(count);
      Agents agents = Agents::open(pass, "function:policy"), others = agents.newAgents();
      EpisodeOptions options;
      if (timed)
        options.deadline = std::chrono::hours(1);
      std::vector<double> ours, floor;
      uint64_t ourState = 0, floorState = 0;
      for (int round = 0; round < Rounds; ++round) {
        floor.push_back(byHand(others, count, floorState));
        ours.push_back(ofLibrary(pass, agents, options, ourState));
      }
      if (ourState != floorState || median(ours) <= 0 || median(floor) <= 0)
        bench::fail("the two loops differ");
      std::printf("%s{\"agents\": %zu, \"deadline\": %s, \"episodes\": %d, \"steps\": %d, "
                  "\"step_ns\": %.1f, \"floor_ns\": %.1f}",
                  separator, count, timed ? "true" : "false", Episodes, Steps, median(ours),
                  median(floor));
      separator = ", ";
    }
  }
  std::printf("]\n");
  return 0;
}
