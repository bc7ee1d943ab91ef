// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Reinforcement learning inside the compiler: the pass is the environment, the library asks.
#ifndef MLBRIDGE_ENVIRONMENT_H
#define MLBRIDGE_ENVIRONMENT_H

#include <mlbridge/model.h>
#include <mlbridge/runner.h>

#include <cstdint>
#include <string>

namespace mlbridge {

/// Where an environment writes what the agent shall see: the inputs of the agent that acts next.
/// Valid during the call that it is passed to.
class Observation {
public:
  explicit Observation(Runner &agent) : agent_(agent) {}
  template <typename T> Status set(std::string_view name, const T &value) {
    return agent_.set(name, value);
  }
  template <typename T> Span<T> input(std::string_view name) { return agent_.input<T>(name); }
  template <typename T>
  Expected<Span<T>> resize(std::string_view name, std::initializer_list<int64_t> shape) {
    return agent_.resize<T>(name, shape);
  }
  /// Untyped access by index into the signature's inputs; for language bindings.
  TensorView inputAt(size_t index) { return agent_.inputAt(index); }
  Expected<TensorView> resizeAt(size_t index, Span<const int64_t> shape) {
    return agent_.resizeAt(index, shape);
  }

private:
  Runner &agent_;
};

/// What the agent answered: its outputs. Valid during the call that it is passed to.
class Action {
public:
  explicit Action(Runner &agent) : agent_(agent) {}
  /// The first element of the named output. Errors: InvalidArgument (name, type), PolicyFailed
  /// (empty).
  template <typename T> Expected<T> get(std::string_view name) const {
    Span<const T> values = all<T>(name);
    if (values.empty())
      return agent_.status().isOk()
                 ? Status(Code::PolicyFailed, "output '" + std::string(name) + "' is empty")
                 : agent_.status();
    return values[0];
  }
  template <typename T> Span<const T> all(std::string_view name) const {
    return agent_.output<T>(name);
  }
  /// Untyped access by index into the signature's outputs; for language bindings.
  TensorView outputAt(size_t index) const { return agent_.outputAt(index); }

private:
  Runner &agent_;
};

/// A pass that decides step by step. Used by one thread at a time.
class Environment {
public:
  virtual ~Environment();

  /// The inputs are the observation, the outputs the action.
  virtual const Signature &signature() const = 0;
  /// Starts an episode, of context() and seed(), and writes its first observation. May call
  /// setDone() if nothing is to be decided.
  virtual Status reset(Observation &first) = 0;
  /// Applies the action, then either writes the next observation or calls setDone(). A status other
  /// than Ok ends the episode; use PolicyFailed for an action that cannot be applied.
  virtual Status step(const Action &action, Observation &next) = 0;

  bool isDone() const { return doneCalls_ != 0; }
  /// What the episode is about (module, function), and its seed, as EpisodeOptions or a driver's
  /// reset give them; for reset().
  const std::string &context() const { return context_; }
  uint64_t seed() const { return seed_; }
  /// The reward of the last step, sent to a model in training if it was set; 0 unless set.
  double reward() const { return reward_; }

protected:
  /// The episode ends with this call of reset or step; to be called once.
  void setDone() { ++doneCalls_; }
  void setReward(double reward) {
    reward_ = reward;
    hasReward_ = true;
  }

private:
  friend struct EpisodeDriver;
  unsigned doneCalls_ = 0;
  bool hasReward_ = false;
  double reward_ = 0;
  std::string context_;
  uint64_t seed_ = 0;
};

struct EpisodeOptions {
  /// Ends the episode, successfully, after so many actions; 0 = no limit.
  uint32_t maxSteps = 0;
  /// For the whole episode, beside the deadline of each evaluation.
  Duration deadline = Duration::max();
  std::string episode; ///< overrides OpenOptions::episode
  std::string context; ///< overrides OpenOptions::context: module, function
  uint64_t seed = 0;   ///< for the environment
};

struct EpisodeResult {
  Status status;      ///< Ok, or which step failed and why
  uint64_t steps = 0; ///< actions applied
  double totalReward = 0;
  bool reachedLimit = false; ///< ended by maxSteps
};

/// The asking loop: reset, then evaluate and step until done, the limit, the deadline or an error.
/// The model is told of the episode's begin, rewards and end. After an error the environment is
/// left as its last successful step left it, and the pass falls back.
EpisodeResult run(Environment &environment, Runner &agent, const EpisodeOptions &options = {});
/// The same with a Runner made from the model, which must be bound to environment.signature().
EpisodeResult run(Environment &environment, const Model &model, const EpisodeOptions &options = {});

class Server;

struct ServeOptions {
  /// Ends an episode, successfully, after so many actions; 0 = no limit.
  uint32_t maxSteps = 0;
  /// Gives up when no driver has come, or come back, for so long.
  Duration idle = Duration::max();
  /// Goes on when a driver has left, until another comes.
  bool keepServing = false;
};

struct ServeResult {
  Status status; ///< Ok: the driver has left; DeadlineExceeded: none came; Cancelled: stop()
  uint64_t episodes = 0, steps = 0;
};

/// The other direction, for training: the environment waits for a driver (driver.h, or Python's
/// mlbridge.drive) that resets and steps it. The server must have been made with
/// ServerOptions::environment and this environment's signature. One driver at a time: a second one
/// is told Busy while an episode of the first is open. A status that the environment gives fails
/// that episode, and the driver is told why; so does an environment that calls setDone() twice.
ServeResult serve(Environment &environment, Server &server, const ServeOptions &options = {});

} // namespace mlbridge

#endif
