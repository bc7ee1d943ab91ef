// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The asking loop, with an environment that does what it is told and a model that takes notes.
#include <mlbridge/environment.h>
#include <mlbridge/function.h>

#include "core/backend.h"

#include <gtest/gtest.h>

using namespace mlbridge;
using namespace std::chrono_literals;

namespace {

const Signature Steps{{TensorSpec::of<int64_t>("step")}, {TensorSpec::of<int64_t>("action")}};

// The calls that the model got, in order.
struct Notes {
  std::vector<std::string> lines;
  int failAt = -1; ///< evaluation, from 0
  Status beginning, rewarding;
  Duration left{}; ///< to the deadline of the last evaluation
};

class NotingRunner final : public RunnerBackend {
public:
  explicit NotingRunner(Notes &notes) : notes_(notes) {}
  TensorView input(size_t) override { return step_.view(); }
  Expected<TensorView> resize(size_t, Span<const int64_t>) override {
    return Status(Code::Internal, "nothing is Dynamic");
  }
  Status evaluate(Duration left) override {
    notes_.left = left;
    if (left <= Duration::zero())
      return Status(Code::DeadlineExceeded, "too late");
    if (count_++ == notes_.failAt)
      return Status(Code::Closed, "the server is gone");
    notes_.lines.push_back("asked " + std::to_string(step_.as<int64_t>()[0]));
    action_.as<int64_t>()[0] = 10 + step_.as<int64_t>()[0];
    return Status();
  }
  TensorView output(size_t) override { return action_.view(); }
  Status beginEpisode(std::string_view episode, std::string_view unit) override {
    notes_.lines.push_back("begin " + std::string(episode) + "/" + std::string(unit));
    return notes_.beginning;
  }
  Status reward(double value) override {
    notes_.lines.push_back("reward " + std::to_string(static_cast<int>(value)));
    return notes_.rewarding;
  }
  Status endEpisode(const Status &outcome) override {
    notes_.lines.push_back("end " + outcome.toString());
    return Status();
  }

private:
  Notes &notes_;
  int count_ = 0;
  Tensor step_{Steps.inputs[0]}, action_{Steps.outputs[0]};
};

class NotingModel final : public ModelBackend {
public:
  explicit NotingModel(Notes &notes) : notes_(notes) {}
  const Metadata &metadata() const override { return metadata_; }
  const Signature *signature() const override { return &Steps; }
  Expected<std::unique_ptr<RunnerBackend>> newRunner(const Signature &, const CallContext &,
                                                     Duration) override {
    return std::unique_ptr<RunnerBackend>(std::make_unique<NotingRunner>(notes_));
  }

private:
  Notes &notes_;
  Metadata metadata_;
};

class Script final : public Environment {
public:
  const Signature &signature() const override { return Steps; }
  Status reset(Observation &first) override {
    steps = 0;
    actions.clear();
    return onReset ? onReset(*this, first) : first.set("step", int64_t(0));
  }
  Status step(const Action &action, Observation &next) override {
    Expected<int64_t> a = action.get<int64_t>("action");
    if (!a)
      return a.status();
    actions.push_back(*a);
    ++steps;
    if (onStep)
      return onStep(*this, action, next);
    if (steps == length)
      setDone();
    return next.set("step", int64_t(steps));
  }
  using Environment::setDone;
  using Environment::setReward;

  int steps = 0, length = 3;
  std::vector<int64_t> actions;
  std::function<Status(Script &, Observation &)> onReset;
  std::function<Status(Script &, const Action &, Observation &)> onStep;
};

class Run : public testing::Test {
protected:
  EpisodeResult run(const EpisodeOptions &options = {}) {
    notes.lines.clear();
    Model model = Model::fromBackend(std::make_shared<NotingModel>(notes));
    EXPECT_TRUE(model.bind(Steps));
    return mlbridge::run(environment, model, options);
  }
  Notes notes;
  Script environment;
};

using Lines = std::vector<std::string>;

} // namespace

TEST_F(Run, AsksUntilDoneAndTellsTheModel) {
  environment.onStep = [](Script &e, const Action &, Observation &next) {
    if (e.steps != 2)
      e.setReward(e.steps);
    if (e.steps == 3)
      e.setDone();
    return next.set("step", int64_t(e.steps));
  };
  EpisodeOptions options;
  options.episode = "e1";
  options.unit = "main.c";
  const EpisodeResult result = run(options);
  EXPECT_TRUE(result.status) << result.status.toString();
  EXPECT_EQ(result.steps, 3u);
  EXPECT_EQ(result.totalReward, 4.0);
  EXPECT_FALSE(result.reachedLimit);
  EXPECT_TRUE(environment.isDone());
  EXPECT_EQ(environment.actions, (std::vector<int64_t>{10, 11, 12}));
  EXPECT_EQ(notes.lines, (Lines{"begin e1/main.c", "asked 0", "reward 1", "asked 1", "asked 2",
                                "reward 3", "end ok"}));
}

TEST_F(Run, NothingToDecide) {
  environment.onReset = [](Script &e, Observation &) {
    e.setDone();
    return Status();
  };
  const EpisodeResult result = run();
  EXPECT_TRUE(result.status);
  EXPECT_EQ(result.steps, 0u);
  EXPECT_EQ(notes.lines, (Lines{"begin /", "end ok"}));
}

TEST_F(Run, StopsAtTheLimit) {
  environment.length = 100;
  EpisodeOptions options;
  options.maxSteps = 2;
  const EpisodeResult result = run(options);
  EXPECT_TRUE(result.status);
  EXPECT_TRUE(result.reachedLimit);
  EXPECT_EQ(result.steps, 2u);
  EXPECT_EQ(environment.steps, 2);
}

TEST_F(Run, AnEpisodeThatEndsOnTheLimitDidNotReachIt) {
  EpisodeOptions options;
  options.maxSteps = 3;
  EXPECT_FALSE(run(options).reachedLimit);
}

TEST_F(Run, AFailingEvaluationSaysAtWhichStepAndLeavesTheEnvironment) {
  for (int k = 0; k < 3; ++k) {
    notes.failAt = k;
    const EpisodeResult result = run();
    EXPECT_EQ(result.status.toString(),
              "closed: step " + std::to_string(k) + ": the server is gone");
    EXPECT_EQ(result.steps, static_cast<uint64_t>(k));
    EXPECT_EQ(environment.steps, k);
    EXPECT_EQ(notes.lines.back(), "end " + result.status.toString());
  }
}

TEST_F(Run, AnActionThatCannotBeAppliedEndsTheEpisode) {
  environment.onStep = [](Script &, const Action &, Observation &) {
    return Status(Code::PolicyFailed, "action 10 is out of range");
  };
  const EpisodeResult result = run();
  EXPECT_EQ(result.status.toString(), "policy failed: step 0: action 10 is out of range");
  EXPECT_EQ(result.steps, 0u);
}

TEST_F(Run, AFailingResetIsNotAsked) {
  environment.onReset = [](Script &, Observation &) { return Status(Code::Internal, "no module"); };
  EXPECT_EQ(run().status.toString(), "internal: reset: no module");
  EXPECT_EQ(notes.lines, (Lines{"begin /", "end internal: reset: no module"}));
}

TEST_F(Run, TheEpisodesDeadlineHolds) {
  EpisodeOptions options;
  options.deadline = 0s;
  const EpisodeResult result = run(options);
  EXPECT_EQ(result.status.code(), Code::DeadlineExceeded);
  EXPECT_EQ(result.status.message(), "step 0: the deadline of the episode has passed");
}

TEST_F(Run, AnEvaluationGetsTheEarlierOfTheTwoDeadlines) {
  EpisodeOptions options;
  options.deadline = 1s; // of the episode; the model has the default of 5s
  ASSERT_TRUE(run(options).status);
  EXPECT_LE(notes.left, 1s);
  options.deadline = 1h;
  ASSERT_TRUE(run(options).status);
  EXPECT_LE(notes.left, 5s);
}

TEST_F(Run, DoneTwiceIsCaught) {
  environment.onStep = [](Script &e, const Action &, Observation &) {
    e.setDone();
    e.setDone();
    return Status();
  };
  const EpisodeResult result = run();
  EXPECT_EQ(result.status.toString(),
            "invalid argument: step 0: the environment called setDone() twice");
}

TEST_F(Run, WritingOutsideTheSignatureIsCaughtEvenIfItsStatusIsIgnored) {
  environment.onReset = [](Script &, Observation &first) {
    (void)first.set("stpe", int64_t(0));
    return Status();
  };
  EXPECT_EQ(run().status.message().find(
                "reset: the environment wrote an observation that does not fit its signature: "),
            0u);
  environment.onReset = nullptr;
  environment.onStep = [](Script &e, const Action &, Observation &next) {
    (void)next.input<float>("step");
    if (e.steps == 2)
      e.setDone();
    return Status();
  };
  const EpisodeResult result = run();
  EXPECT_EQ(result.status.code(), Code::InvalidArgument);
  EXPECT_EQ(result.steps, 0u);
}

TEST_F(Run, ReadingAnActionThatDoesNotExistIsAnError) {
  environment.onStep = [](Script &, const Action &action, Observation &) {
    EXPECT_FALSE(action.get<float>("action"));
    return action.get<int64_t>("axtion").status();
  };
  const EpisodeResult result = run();
  EXPECT_EQ(result.status.code(), Code::InvalidArgument);
  EXPECT_NE(result.status.message().find("'axtion'; did you mean 'action'?"), std::string::npos);
}

TEST_F(Run, AnAgentOfAnotherSignatureIsRefusedBeforeAnythingHappens) {
  const Signature other{{TensorSpec::of<int64_t>("step")}, {TensorSpec::of<int32_t>("action")}};
  Model model = fromFunction(other, [](FunctionCall &) { return Status(); });
  EXPECT_EQ(mlbridge::run(environment, model).status.code(), Code::InvalidArgument) << "not bound";
  ASSERT_TRUE(model.bind(other));
  bool reset = false;
  environment.onReset = [&](Script &, Observation &) {
    reset = true;
    return Status();
  };
  const EpisodeResult result = mlbridge::run(environment, model);
  EXPECT_EQ(result.status.code(), Code::Mismatch);
  EXPECT_NE(result.status.message().find("action: int64"), std::string::npos);
  EXPECT_NE(result.status.message().find("action: int32"), std::string::npos);
  Runner none;
  EXPECT_EQ(mlbridge::run(environment, none).status.code(), Code::Unavailable);
  EXPECT_FALSE(reset);
}

TEST_F(Run, TheModelRefusingTheEpisodeEndsIt) {
  notes.beginning = Status(Code::Busy, "too many");
  EXPECT_EQ(run().status.toString(), "busy: beginning the episode: too many");
  EXPECT_EQ(environment.steps, 0);
  notes.beginning = Status();
  notes.rewarding = Status(Code::Closed, "gone");
  environment.onStep = [](Script &e, const Action &, Observation &next) {
    e.setReward(1);
    return next.set("step", int64_t(e.steps));
  };
  EXPECT_EQ(run().status.toString(), "closed: the reward of step 0: gone");
}

TEST_F(Run, ARunnerServesEpisodeAfterEpisode) {
  Model model = Model::fromBackend(std::make_shared<NotingModel>(notes));
  ASSERT_TRUE(model.bind(Steps));
  Runner agent = model.newRunner();
  notes.failAt = 1;
  EXPECT_FALSE(mlbridge::run(environment, agent).status);
  const EpisodeResult second = mlbridge::run(environment, agent);
  EXPECT_TRUE(second.status) << second.status.toString();
  EXPECT_EQ(second.steps, 3u);
  EXPECT_EQ(mlbridge::run(environment, agent).steps, 3u)
      << "an environment that was done starts anew";
}
