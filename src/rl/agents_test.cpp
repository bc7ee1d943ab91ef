// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Several agents in one environment: who acts next, what each sees and earns, and who is asked
// where.
#include <mlbridge/environment.h>
#include <mlbridge/function.h>

#include <gtest/gtest.h>

#include <cmath>

using namespace mlbridge;

namespace {

enum : size_t { Pick, Paint, Cut };

/// Picks one of the things that are left, then paints it or cuts it in two, as Pick's second output
/// says; an agent chosen by the outcome of another. Observations differ in kind and in size.
class Workshop : public Environment {
public:
  Span<const AgentSpec> agents() const override { return specs; }
  Status reset(Observation &first) override {
    sizes = {4, 1, 3};
    log.clear();
    if (onReset)
      return onReset(*this, first);
    return askPick(first);
  }
  Status step(const Action &action, Observation &next) override {
    if (onStep)
      return onStep(*this, action, next);
    switch (action.agent()) {
    case Pick: {
      Expected<int64_t> which = action.choice("which", sizes.size());
      if (!which)
        return which.status();
      at = static_cast<size_t>(*which);
      log.push_back("pick " + std::to_string(at));
      const bool cut = action.all<int64_t>("how")[0] != 0;
      setReward(0.5);
      next.forAgent(cut ? "cut" : "paint");
      return next.set("size", sizes[at]);
    }
    case Paint:
      log.push_back("paint " + std::to_string(action.all<float>("rgb")[2]));
      setReward(Pick, 2);
      setReward(4);
      sizes.erase(sizes.begin() + static_cast<long>(at));
      break;
    default:
      log.push_back("cut");
      setReward(Pick, -1);
      sizes[at] /= 2;
      sizes.push_back(sizes[at]);
    }
    if (sizes.empty()) {
      setDone();
      return Status();
    }
    return askPick(next);
  }
  Status askPick(Observation &next) { return next.forAgent(Pick).set("sizes", sizes); }
  using Environment::setDone;
  using Environment::setReward;
  using Environment::setTruncated;

  std::vector<AgentSpec> specs = {
      {"pick",
       {{TensorSpec::of<int64_t>("sizes", {Dynamic})},
        {TensorSpec::of<int64_t>("which"), TensorSpec::of<int64_t>("how", {1})}}},
      {"paint", {{TensorSpec::of<int64_t>("size")}, {TensorSpec::of<float>("rgb", {3})}}},
      {"cut", {{TensorSpec::of<int64_t>("size")}, {TensorSpec::of<bool>("sure")}}}};
  std::vector<int64_t> sizes;
  size_t at = 0;
  std::vector<std::string> log;
  std::function<Status(Workshop &, Observation &)> onReset;
  std::function<Status(Workshop &, const Action &, Observation &)> onStep;
};

/// Picks the largest, cuts what is larger than 2. One function for all: it looks at the agent.
Status decide(FunctionCall &call) {
  if (call.context().agent == "paint") {
    call.out<float>("rgb")[2] = static_cast<float>(call.in<int64_t>("size")[0]);
  } else if (call.context().agent == "pick") {
    const Span<const int64_t> sizes = call.in<int64_t>("sizes");
    size_t best = 0;
    for (size_t i = 1; i < sizes.size(); ++i)
      if (sizes[i] > sizes[best])
        best = i;
    call.out<int64_t>("which")[0] = static_cast<int64_t>(best);
    call.out<int64_t>("how")[0] = sizes[best] > 2;
  }
  return Status();
}

Model decider() {
  FunctionModel model;
  model.newFunction = [] { return decide; };
  return fromFunction(std::move(model));
}

class Several : public testing::Test {
protected:
  static void SetUpTestSuite() {
    for (const char *name : {"workshop", "workshop-cut"})
      ASSERT_TRUE(registerFunction(name, [](const Uri &) -> Expected<FunctionModel> {
        FunctionModel model;
        model.newFunction = [] { return decide; };
        return model;
      }));
  }
  Workshop environment;
};

using Lines = std::vector<std::string>;
const Lines Played = {"pick 0", "cut",
                      "pick 2", "cut",
                      "pick 0", "paint 2.000000",
                      "pick 2", "paint 2.000000",
                      "pick 0", "paint 1.000000",
                      "pick 0", "paint 1.000000",
                      "pick 0", "paint 1.000000"};

} // namespace

TEST_F(Several, TheOutcomeOfOneAgentChoosesAnother) {
  Agents agents = Agents::open(environment, "function:workshop");
  ASSERT_TRUE(agents) << agents.status().toString();
  const EpisodeResult result = run(environment, agents);
  ASSERT_TRUE(result.status) << result.status.toString();
  EXPECT_EQ(environment.log, Played);
  EXPECT_EQ(result.steps, Played.size());
  EXPECT_EQ(result.agentRewards, (std::vector<double>{7 * 0.5 + 5 * 2 - 2, 5 * 4, 0}));
  EXPECT_EQ(result.totalReward, 31.5);
  EXPECT_EQ(result.failedAgent, -1);
  EXPECT_FALSE(result.truncated);
}

TEST_F(Several, AModelIsNamedForEachOrForTheOthersOrByThePattern) {
  for (const char *uris : {"pick=function:workshop; *=function:workshop-cut", "*=function:workshop",
                           " cut = function:workshop-{agent} ;;"
                           "*=function:workshop;"}) {
    Agents agents = Agents::open(environment, uris);
    ASSERT_TRUE(agents) << agents.status().toString();
    EXPECT_TRUE(run(environment, agents).status) << uris;
    EXPECT_EQ(environment.log, Played);
    Agents others = agents.newAgents();
    EXPECT_TRUE(run(environment, others).status);
    EXPECT_EQ(environment.log, Played);
  }
}

TEST_F(Several, AModelOfTheProgramsOwnTakesAnAgentsPlace) {
  Agents agents = Agents::open(environment, "cut=function:workshop");
  EXPECT_EQ(agents.status().toString(), "not found: no model was given for agent 'pick'");
  EXPECT_FALSE(agents.hasModel(Pick));
  EXPECT_TRUE(agents.hasModel(Cut));
  EXPECT_EQ(run(environment, agents).status.toString(),
            "not found: no model was given for agent 'pick'");
  EXPECT_TRUE(environment.log.empty());
  ASSERT_TRUE(agents.set("pick", decider()));
  ASSERT_TRUE(agents.set("paint", decider()));
  EXPECT_TRUE(agents.status());
  EXPECT_TRUE(run(environment, agents).status);
  EXPECT_EQ(environment.log, Played);
  EXPECT_EQ(agents.set("pint", decider()).toString(),
            "invalid argument: there is no agent 'pint'; did you mean 'paint'? (agents: pick, "
            "paint, cut)");
  const Status wrong = agents.set("paint", fromFunction(environment.specs[Cut].signature,
                                                        [](FunctionCall &) { return Status(); }));
  EXPECT_EQ(wrong.code(), Code::Mismatch) << wrong.toString();
  EXPECT_EQ(run(environment, agents).status.code(), Code::Mismatch);
}

TEST_F(Several, AnAgentIsGivenWhatOnlyItsModelAsksFor) {
  Signature more = environment.specs[Paint].signature;
  more.inputs.push_back(TensorSpec::of<float>("shade"));
  ASSERT_TRUE(registerFunction("shaded", [&](const Uri &) -> Expected<FunctionModel> {
    return FunctionModel{more, {{"shade", "dark"}}, [] { return decide; }};
  }));
  std::vector<std::string> asked;
  const std::vector<AgentSpec> before = environment.specs;
  const auto signatureFor = [&](size_t agent, const Model &model) -> Expected<Signature> {
    asked.push_back(model.metadata("shade").value_or("none"));
    const Signature *own = model.modelSignature();
    const bool wants = agent == Paint && own && own->findInput("shade") >= 0;
    return wants ? more : before[agent].signature;
  };
  Agents agents =
      Agents::open(before, "paint=function:shaded; *=function:workshop", {}, signatureFor);
  ASSERT_TRUE(agents) << agents.status().toString();
  EXPECT_EQ(asked, (std::vector<std::string>{"none", "dark", "none"}));
  EXPECT_EQ(agents.specs()[Paint].signature, more);
  EXPECT_EQ(agents.specs()[Cut], before[Cut]);
  EXPECT_EQ(run(environment, agents).status.code(), Code::Mismatch)
      << "it still states the old one";
  environment.specs.assign(agents.specs().begin(), agents.specs().end());
  EXPECT_TRUE(run(environment, agents).status);
  EXPECT_EQ(environment.log, Played);
  Agents others = agents.newAgents();
  EXPECT_TRUE(run(environment, others).status);

  // One that takes any signature asks for nothing.
  Agents any = Agents::open(before, "function:workshop", {}, signatureFor);
  EXPECT_EQ(any.specs()[Paint], before[Paint]);
  // Without being asked for it, the agent's signature is not enough for the model.
  EXPECT_EQ(Agents::open(before, "function:shaded").status().code(), Code::Mismatch);
  const auto fails = [](size_t agent, const Model &) -> Expected<Signature> {
    return agent == Cut ? Expected<Signature>(Status(Code::NotFound, "no shades"))
                        : Expected<Signature>(Signature());
  };
  EXPECT_EQ(Agents::open(before, "function:workshop", {}, fails).status().toString(),
            "not found: agent 'cut': no shades");
}

TEST_F(Several, WhatIsWrongWithTheNamesIsSaidBeforeTheEpisode) {
  const auto failure = [&](const char *uris) {
    Agents agents = Agents::open(environment, uris);
    const EpisodeResult result = run(environment, agents);
    EXPECT_EQ(result.status.toString(), agents.status().toString());
    return result.status.toString();
  };
  EXPECT_EQ(failure("pant=function:workshop"),
            "invalid argument: there is no agent 'pant'; did you mean 'paint'? (agents: pick, "
            "paint, cut)");
  EXPECT_EQ(failure("cut=function:workshop; cut=function:other"),
            "invalid argument: agents: 'cut' is named twice, 'function:workshop' and "
            "'function:other'");
  EXPECT_EQ(failure(""), "not found: no model was given for agent 'pick'");
  EXPECT_EQ(failure("function:nobody-{agent}").find("not found: agent 'pick': "), 0u);
  environment.specs[Cut].name = "paint";
  EXPECT_EQ(failure("function:workshop"),
            "invalid argument: agents 1 and 2 are both called 'paint'");
  environment.specs[Cut].name = "";
  EXPECT_EQ(failure("function:workshop"), "invalid argument: agent 2 has no name");
  EXPECT_FALSE(Agents().status());
  Agents none;
  EXPECT_FALSE(run(environment, none).status);
}

TEST_F(Several, AFailureSaysWhichAgentAndWhichStep) {
  int asked = 0;
  FunctionModel failing;
  failing.newFunction = [&asked]() -> Function {
    return [&asked](FunctionCall &) {
      return ++asked == 2 ? Status(Code::PolicyFailed, "no colours left") : Status();
    };
  };
  Agents agents = Agents::open(environment, "function:workshop");
  ASSERT_TRUE(agents.set("paint", fromFunction(std::move(failing))));
  const EpisodeResult result = run(environment, agents);
  EXPECT_EQ(result.status.toString(), "policy failed: step 7, agent 'paint': no colours left");
  EXPECT_EQ(result.failedAgent, static_cast<int>(Paint));
  EXPECT_EQ(result.steps, 7u);
  const Lines before = {"pick 0", "cut", "pick 2", "cut", "pick 0", "paint 0.000000", "pick 2"};
  EXPECT_EQ(environment.log, before);
}

TEST_F(Several, TheEnvironmentIsHeldToItsAgents) {
  Agents agents = Agents::open(environment, "function:workshop");
  environment.onReset = [](Workshop &, Observation &first) {
    return first.forAgent("pich").set("sizes", std::vector<int64_t>{1});
  };
  EXPECT_EQ(run(environment, agents).status.toString(),
            "invalid argument: reset: there is no agent 'pich'; did you mean 'pick'? (agents: "
            "pick, paint, cut)");
  environment.onReset = [](Workshop &, Observation &first) {
    return first.forAgent(7).set("sizes", std::vector<int64_t>{1});
  };
  EXPECT_EQ(run(environment, agents).status.toString(),
            "invalid argument: reset: there is no agent number 7; there are 3, numbered from 0");
  environment.onReset = nullptr;
  environment.onStep = [](Workshop &, const Action &, Observation &next) {
    (void)next.forAgent(Cut).set("sizes", std::vector<int64_t>{1}); // which is pick's
    return Status();
  };
  EpisodeResult result = run(environment, agents);
  EXPECT_EQ(result.status.message().find(
                "step 0, agent 'pick': the environment wrote an observation that "
                "does not fit its signature: there is no input 'sizes'"),
            0u)
      << result.status.toString();
  environment.onStep = [](Workshop &e, const Action &, Observation &) {
    e.setReward(3, 1);
    return Status();
  };
  EXPECT_EQ(run(environment, agents).status.toString(),
            "invalid argument: step 0, agent 'pick': the environment gave a reward to an agent "
            "that does not exist");
  environment.onStep = [](Workshop &, const Action &action, Observation &) {
    return action.choice("which", 0).status();
  };
  EXPECT_EQ(run(environment, agents).status.toString(),
            "policy failed: step 0, agent 'pick': output 'which' is 0; there are 0 choices, "
            "numbered from 0");
  environment.onStep = nullptr;
  EXPECT_TRUE(run(environment, agents).status) << "what was wrong is forgotten";
}

TEST_F(Several, AgentsOfAnotherEnvironmentAreRefused) {
  const std::vector<AgentSpec> one = {environment.specs[Cut]};
  Agents fewer = Agents::open(Span<const AgentSpec>(one), "function:workshop");
  EXPECT_EQ(run(environment, fewer).status.toString(),
            "mismatch: the environment has 3 agents, 1 were given");
  std::vector<AgentSpec> swapped = environment.specs;
  std::swap(swapped[Paint].signature, swapped[Cut].signature);
  Agents others = Agents::open(Span<const AgentSpec>(swapped), "function:workshop");
  EXPECT_EQ(run(environment, others).status.message().find("the environment states"), 0u);
}

TEST_F(Several, TheSameAgentActsAgainUnlessAnotherIsNamed) {
  std::vector<size_t> acted;
  environment.onStep = [&](Workshop &e, const Action &action, Observation &next) {
    acted.push_back(action.agent());
    if (acted.size() == 5)
      e.setTruncated();
    if (acted.size() == 2)
      next.forAgent(Cut);
    return Status();
  };
  Agents agents = Agents::open(environment, "function:workshop");
  const EpisodeResult result = run(environment, agents);
  EXPECT_TRUE(result.status) << result.status.toString();
  EXPECT_EQ(acted, (std::vector<size_t>{Pick, Pick, Cut, Cut, Cut}));
  EXPECT_TRUE(result.truncated);
  EXPECT_FALSE(result.reachedLimit);
  EpisodeOptions options;
  options.maxSteps = 1;
  acted.clear();
  EXPECT_TRUE(run(environment, agents, options).truncated);
}

TEST_F(Several, ValuesAreCheckedOnRequest) {
  std::vector<AgentSpec> specs = {
      {"", {{TensorSpec::of<float>("x", {2}), TensorSpec::of<bool>("action_mask", {2})}, {}}}};
  environment.specs = specs;
  float x = 0;
  double reward = 0;
  bool allowed = true;
  environment.onReset = [](Workshop &, Observation &first) {
    return first.set("action_mask", {true, true});
  };
  environment.onStep = [&](Workshop &e, const Action &, Observation &next) {
    e.setReward(reward);
    (void)next.set("x", {0.0f, x});
    if (allowed)
      e.setDone();
    return next.set("action_mask", {false, allowed});
  };
  Agents agents = Agents::open(Span<const AgentSpec>(specs), "function:workshop");
  EpisodeOptions options;
  options.checkValues = true;
  EXPECT_TRUE(run(environment, agents, options).status);
  reward = std::nan("");
  EXPECT_NE(run(environment, agents, options).status.message().find("reward that is not finite"),
            std::string::npos);
  reward = 0;
  allowed = false;
  EXPECT_NE(run(environment, agents, options).status.message().find("action_mask allows no action"),
            std::string::npos);
  x = INFINITY;
  EXPECT_NE(run(environment, agents, options).status.message().find("not finite to 'x: float32[2]"),
            std::string::npos);
}
