// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Reinforcement learning inside the compiler: the pass is the environment, the library asks its
// agents.
//
//     struct Unroll : mlbridge::Environment {
//       const mlbridge::Signature &signature() const override { return Loop; }
//       mlbridge::Status reset(mlbridge::Observation &first) override {
//         return first.set("trip_count", 8);
//       }
//       mlbridge::Status step(const mlbridge::Action &action, mlbridge::Observation &) override {
//         setDone();
//         return unroll(action.choice("factor", 4));
//       }
//     };
//     Unroll environment;
//     mlbridge::EpisodeResult result = mlbridge::run(environment, model);
#ifndef MLBRIDGE_ENVIRONMENT_H
#define MLBRIDGE_ENVIRONMENT_H

#include <mlbridge/agent.h>
#include <mlbridge/model.h>
#include <mlbridge/runner.h>

#include <cstdint>
#include <string>
#include <vector>

namespace mlbridge {

/// The observation that an environment writes: the inputs of the agent that acts next. Valid
/// during the call that it is passed to.
class Observation {
public:
  /// Made by the library, for one agent.
  explicit Observation(Runner &agent) : agent_(&agent) {}

  /// This agent acts next, and what is written from now on is for it. If nobody is named, the agent
  /// that has acted acts again; after reset, the first one. An agent that does not exist ends the
  /// episode with InvalidArgument.
  Observation &forAgent(size_t agent);
  Observation &forAgent(std::string_view name);

  /// Runner::set, input and resize of the agent that acts next. A wrong name, value or count ends
  /// the episode, whether the status is looked at or not.
  template <typename T> Status set(TensorKey input, const T &value) {
    return runner().set(input, value);
  }
  template <typename T> Status set(TensorKey input, std::initializer_list<T> values) {
    return runner().set(input, values);
  }
  template <typename T> Span<T> input(TensorKey input) { return runner().input<T>(input); }
  template <typename T>
  Expected<Span<T>> resize(TensorKey input, std::initializer_list<int64_t> shape) {
    return runner().resize<T>(input, shape);
  }
  /// Untyped access by index into the signature's inputs; for language bindings.
  TensorView inputAt(size_t index) { return runner().inputAt(index); }
  Expected<TensorView> resizeAt(size_t index, Span<const int64_t> shape) {
    return runner().resizeAt(index, shape);
  }
  /// The inputs of the agent that acts next, for all that a Runner can.
  Runner &runner() {
    if (!written_.empty())
      written_[next_] = true;
    return *agent_;
  }

private:
  friend struct EpisodePlayer;
  Observation(Span<Runner *const> agents, Span<const AgentSpec> specs)
      : agent_(agents[0]), agents_(agents), specs_(specs), written_(agents.size()) {}
  Runner *agent_;
  Span<Runner *const> agents_;
  Span<const AgentSpec> specs_;
  size_t next_ = 0;
  Status unknown_;               ///< agent that was named
  std::vector<uint8_t> written_; ///< for each agent, whether it was since that was asked
};

/// The answer of an agent: its outputs. Valid during the call that it is passed to.
class Action {
public:
  /// Made by the library, for one agent.
  explicit Action(Runner &runner, size_t agent = 0) : runner_(runner), agent_(agent) {}
  size_t agent() const { return agent_; } ///< the number of the agent that acted
  /// The first element of an output. Errors: InvalidArgument (name, index, type), PolicyFailed
  /// (empty).
  template <typename T> Expected<T> get(TensorKey output) const {
    Span<const T> values = all<T>(output);
    if (values.empty())
      return runner_.status().ok()
                 ? Status(Code::PolicyFailed, "output " + output.toString() + " is empty")
                 : runner_.status();
    return values[0];
  }
  /// The same of a discrete action: one of 0 ... choices - 1. Errors: also PolicyFailed (another
  /// number).
  Expected<int64_t> choice(std::string_view name, size_t choices) const;
  /// All elements of an output; empty if there is no such output of this type.
  template <typename T> Span<const T> all(TensorKey output) const {
    return runner_.output<T>(output);
  }
  /// Untyped access by index into the signature's outputs; for language bindings.
  TensorView outputAt(size_t index) const { return runner_.outputAt(index); }
  Runner &runner() const { return runner_; } ///< of the agent that acted

private:
  Runner &runner_;
  size_t agent_;
};

/// A pass that decides step by step, asking one agent or several in turn.
///
/// # Threads
/// Used by one thread at a time.
///
/// # Errors
/// A status that reset or step returns ends the episode, and is in its EpisodeResult.
class Environment {
public:
  virtual ~Environment();

  /// The only agent's: the inputs are the observation, the outputs the action. One of this and
  /// agents() is to be overridden.
  virtual const Signature &signature() const;
  /// The agents, if there are several; their numbers are those of this list, which must not
  /// change.
  virtual Span<const AgentSpec> agents() const;

  /// Starts an episode, of unit() and seed(), and writes its first observation. May call
  /// setDone() if nothing is to be decided.
  virtual Status reset(Observation &first) = 0;
  /// Applies the action, then either writes the next observation or calls setDone(). Observations
  /// written together with setDone(), for one agent or several, are the last observations; a driver
  /// receives them. A status other than Ok ends the episode; use PolicyFailed for an action that
  /// cannot be applied.
  virtual Status step(const Action &action, Observation &next) = 0;

  /// True if the episode has ended, and whether by setTruncated().
  bool isDone() const { return doneCalls_ != 0; }
  bool isTruncated() const { return truncated_; }
  /// The unit that the episode is about (module, function), and its seed, as EpisodeOptions or a
  /// driver's reset give them; for reset().
  const std::string &unit() const { return unit_; }
  uint64_t seed() const { return seed_; }
  /// The reward of the last step, for the agent that acted or for any agent; 0 unless set. Only a
  /// reward that was set is sent to the model.
  double reward() const { return reward(acted_); }
  double reward(size_t agent) const { return agent < rewards_.size() ? rewards_[agent].value : 0; }

protected:
  /// Ends the episode with the current call of reset or step; call it only once.
  void setDone() { ++doneCalls_; }
  /// The same, because of the environment's own limit: the next observation should still be
  /// written.
  void setTruncated() {
    ++doneCalls_;
    truncated_ = true;
  }
  /// Sets the reward of the current step, for the agent that acted or for any. At its next turn, or
  /// at the end, an agent receives the sum since it last acted.
  void setReward(double reward) { setReward(acted_, reward); }
  void setReward(size_t agent, double reward) {
    if (agent < rewards_.size()) {
      rewards_[agent].value = reward;
      rewards_[agent].isSet = true;
    } else {
      unknownRewarded_ = true;
    }
  }

private:
  friend struct EpisodePlayer;
  struct Reward {
    double value = 0; ///< of the last step
    bool isSet = false;
    double sum = 0; ///< since the agent acted
    bool isOwed = false;
  };
  unsigned doneCalls_ = 0;
  bool truncated_ = false, unknownRewarded_ = false;
  size_t acted_ = 0;
  std::vector<Reward> rewards_; ///< for each agent
  std::string unit_;
  uint64_t seed_ = 0;
};

/// How an episode is run.
struct EpisodeOptions {
  /// Ends the episode, successfully, after this many actions; 0 = no limit.
  uint32_t maxSteps = 0;
  /// For the whole episode, in addition to the deadline of each evaluation.
  Duration deadline = Duration::max();
  std::string episode; ///< overrides CallContext::episode
  std::string unit;    ///< overrides CallContext::unit: module, function
  uint64_t seed = 0;   ///< for the environment
  /// Also checks values: a NaN or infinity in a reward or an observation, and an input named
  /// "action_mask" that allows nothing, end the episode with InvalidArgument. Always on in a
  /// library built without NDEBUG. Checks that cost nothing are always on: setDone() called twice,
  /// an observation that does not fit its signature, an unknown agent.
  bool checkValues = false;
};

/// How an episode went.
struct EpisodeResult {
  Status status;             ///< Ok, or which agent failed at which step, and why
  uint64_t steps = 0;        ///< actions applied
  double totalReward = 0;    ///< of all agents
  bool reachedLimit = false; ///< ended by maxSteps
  bool truncated = false;    ///< ended by maxSteps or setTruncated()
  /// The agent whose turn it was when the episode failed, be it in its model or in the
  /// environment's step. -1 if nothing failed, or reset did.
  int failedAgent = -1;
  std::vector<double> agentRewards = {}; ///< the total of each
};

/// Runs one episode: resets, then evaluates and steps until done, the limit, the deadline or an
/// error. The models are told of the episode's begin, rewards and end. After an error the
/// environment is left as its last successful step left it, and the pass falls back. `agents` must
/// have been opened for the environment's agents (Mismatch).
EpisodeResult run(Environment &environment, Agents &agents, const EpisodeOptions &options = {});
/// The same with one Runner for each agent, in their order; each bound to its agent's signature.
EpisodeResult run(Environment &environment, Span<Runner *const> agents,
                  const EpisodeOptions &options = {});
/// For one agent.
EpisodeResult run(Environment &environment, Runner &agent, const EpisodeOptions &options = {});
/// The same with a Runner made from the model, which must be bound to environment.signature().
EpisodeResult run(Environment &environment, const Model &model, const EpisodeOptions &options = {});

class Server;

/// How an environment is served.
struct ServeOptions {
  /// Ends an episode, successfully, after so many actions; 0 = no limit.
  uint32_t maxSteps = 0;
  /// Gives up when no driver has connected, or reconnected, for this long.
  Duration idle = Duration::max();
  bool keepServing = false; ///< waits for another driver when one has left
};

/// How serving an environment ended.
struct ServeResult {
  Status status; ///< Ok: the driver has left; DeadlineExceeded: none came; Cancelled: stop()
  uint64_t episodes = 0; ///< begun
  uint64_t steps = 0;    ///< actions applied
};

/// The other direction, for training: the environment waits for a driver (driver.h, or Python's
/// mlbridge.drive) that resets and steps it. The server must have been made with
/// ServerOptions::environment and this environment's signature or agents. One driver at a time: a
/// second one is told Busy while an episode of the first is open. A status that the environment
/// gives fails that episode, and the driver is told why; so does an environment that calls
/// setDone() twice.
ServeResult serve(Environment &environment, Server &server, const ServeOptions &options = {});
/// A mixture: the agents that the server names are driven, the others are asked here.
ServeResult serve(Environment &environment, Server &server, Agents &others,
                  const ServeOptions &options = {});

} // namespace mlbridge

#endif
