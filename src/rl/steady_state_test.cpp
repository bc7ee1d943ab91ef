// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Episodes of several agents in process allocate nothing for a step of fixed shapes, and take no
// lock. A program of its own, because it replaces the allocator for the whole process.
#include <mlbridge/environment.h>
#include <mlbridge/function.h>

#include <gtest/gtest.h>

#include <cstdlib>
#include <new>

using namespace mlbridge;

#pragma GCC diagnostic ignored "-Wmismatched-new-delete"

static thread_local size_t allocations = 0;

static void *allocate(size_t size, size_t alignment) {
  ++allocations;
  const size_t rounded = (size + alignment - 1) / alignment * alignment;
  void *memory = std::aligned_alloc(alignment, rounded ? rounded : alignment);
  if (!memory)
    throw std::bad_alloc();
  return memory;
}

void *operator new(size_t size) { return allocate(size, 16); }
void *operator new[](size_t size) { return allocate(size, 16); }
void *operator new(size_t size, std::align_val_t a) { return allocate(size, size_t(a)); }
void *operator new[](size_t size, std::align_val_t a) { return allocate(size, size_t(a)); }
void operator delete(void *p) noexcept { std::free(p); }
void operator delete[](void *p) noexcept { std::free(p); }
void operator delete(void *p, size_t) noexcept { std::free(p); }
void operator delete[](void *p, size_t) noexcept { std::free(p); }
void operator delete(void *p, std::align_val_t) noexcept { std::free(p); }
void operator delete[](void *p, std::align_val_t) noexcept { std::free(p); }
void operator delete(void *p, size_t, std::align_val_t) noexcept { std::free(p); }
void operator delete[](void *p, size_t, std::align_val_t) noexcept { std::free(p); }

namespace {

constexpr int Steps = 200;

/// Two agents in turn, of different observations, with rewards for both.
class Turns final : public Environment {
public:
  Span<const AgentSpec> agents() const override { return specs_; }
  Status reset(Observation &first) override {
    steps_ = 0;
    return first.forAgent(size_t(0)).set("features with quite a long name", features_);
  }
  Status step(const Action &action, Observation &next) override {
    setReward(0, 1);
    setReward(1, 0.25);
    if (++steps_ == Steps) {
      setDone();
      return Status();
    }
    const Expected<int64_t> chosen = action.choice("action", 4);
    if (!chosen)
      return chosen.status();
    features_[0] = static_cast<float>(*chosen);
    if (action.agent() == 1)
      return next.forAgent("first of the two agents")
          .set("features with quite a long name", features_);
    (void)next.forAgent("second of the two agents").set("action_mask", mask_);
    return next.set("step", int64_t(steps_));
  }

private:
  std::vector<AgentSpec> specs_ = {
      {"first of the two agents",
       {{TensorSpec::of<float>("features with quite a long name", {16})},
        {TensorSpec::of<int64_t>("action")}}},
      {"second of the two agents",
       {{TensorSpec::of<bool>("action_mask", {4}), TensorSpec::of<int64_t>("step")},
        {TensorSpec::of<int64_t>("action")}}}};
  std::vector<float> features_ = std::vector<float>(16, 1.0f);
  std::array<bool, 4> mask_ = {true, false, true, true};
  int steps_ = 0;
};

TEST(SteadyState, AStepOfAnEpisodeAllocatesNothing) {
  ASSERT_TRUE(registerFunction("turns", [](const Uri &) -> Expected<FunctionModel> {
    FunctionModel model;
    model.newFunction = []() -> Function {
      return [](FunctionCall &call) {
        call.out<int64_t>("action")[0] = 3;
        return Status();
      };
    };
    return model;
  }));
  Turns environment;
  Agents agents = Agents::open(environment, "function:turns");
  EpisodeOptions options;
  ASSERT_TRUE(run(environment, agents).status) << agents.status().toString();
  for (const Duration deadline : {Duration::max(), Duration(std::chrono::hours(1))}) {
    options.deadline = deadline;
    const auto costOf = [&](uint32_t steps) {
      options.maxSteps = steps;
      const size_t before = allocations;
      const EpisodeResult result = run(environment, agents, options);
      EXPECT_EQ(result.steps, steps) << result.status.toString();
      return allocations - before;
    };
    const size_t ofOne = costOf(1);
    EXPECT_EQ(costOf(Steps), ofOne) << "an episode may allocate, its steps must not";
  }
}

} // namespace
