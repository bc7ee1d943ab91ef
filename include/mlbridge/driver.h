// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The client of an environment that a compiler serves: resets it and steps it.
#ifndef MLBRIDGE_DRIVER_H
#define MLBRIDGE_DRIVER_H

#include <mlbridge/deadline.h>
#include <mlbridge/model.h>
#include <mlbridge/status.h>
#include <mlbridge/tensor.h>

#include <memory>
#include <string_view>

namespace mlbridge {

/// How a Driver is opened. Options of the URI take precedence.
struct DriverOptions {
  /// Limits connecting, each reset and each step; `deadline` in the URI takes precedence.
  Duration deadline = std::chrono::seconds(60);
  std::string agent;   ///< sent to the environment, for logs; of a single agent
  std::string episode; ///< told to the environment, for logs
};

/// A connection to a served environment.
///
/// # Threads
/// Used by one thread at a time.
///
/// # Errors
/// After an error an episode is over: the environment may or may not have applied the action. The
/// next reset begins anew, on a new connection if the old one broke.
class Driver {
public:
  /// Connects to an environment (environment.h, serve). Errors: those of Model::open, and Mismatch
  /// if a model is served there.
  static Expected<Driver> open(std::string_view uri, const DriverOptions &options = {});
  Driver(Driver &&) noexcept;
  Driver &operator=(Driver &&) noexcept;
  /// Disconnects; the environment is told.
  ~Driver();

  /// The signature of the agent that acts next: its inputs are observed, its outputs decided.
  const Signature &signature() const;
  Span<const AgentSpec> agents() const; ///< if the environment has several
  /// The number of the agent that acts next, after the last reset or step; once the episode is
  /// done, of the one that acted last.
  size_t agent() const;
  const Metadata &metadata() const; ///< what the environment says of itself

  /// Begins an episode. `unit` names what it is about (a module); empty: the same as before.
  /// Blocks at most until the deadline. Errors: Busy (another driver is in mid-episode),
  /// DeadlineExceeded, Closed, Unavailable, Mismatch (another environment is there now), and what
  /// the environment fails with.
  Status reset(std::string_view unit = {}, uint64_t seed = 0);
  /// Applies the action. Errors: InvalidArgument (no episode is open) and those of reset.
  Status step();

  /// The result of the last reset or step. Truncated: done, because of a limit.
  bool isDone() const;
  bool isTruncated() const;
  /// The sum of agent()'s rewards since its previous action; with one agent, the reward of the last
  /// step.
  double reward() const;
  /// The same for any agent; complete when it is that agent's turn, and at the end of the episode.
  double reward(size_t agent) const;
  uint64_t steps() const; ///< actions applied in this episode

  /// The memory of output `index`, to be written before step(). Each agent's outputs keep
  /// their values.
  TensorView action(size_t index);
  /// Sets the lengths of an output's Dynamic dimensions and returns its buffer. Errors:
  /// InvalidArgument.
  Expected<TensorView> resizeAction(size_t index, Span<const int64_t> shape);
  /// The same by name; empty if there is no such output of this type.
  template <typename T> Span<T> action(std::string_view name) {
    const int index = signature().findOutput(name);
    return index < 0 ? Span<T>() : action(static_cast<size_t>(index)).template as<T>();
  }
  /// Input `index` of the signature as the environment sent it; empty after an error. Once the
  /// episode is done: the last observation, if the environment gave one. Valid until the next reset
  /// or step.
  TensorView observation(size_t index) const;
  /// The same by name; empty if there is no such input of this type.
  template <typename T> Span<const T> observation(std::string_view name) const {
    const int index = signature().findInput(name);
    if (index < 0)
      return {};
    const Span<T> all = observation(static_cast<size_t>(index)).template as<T>();
    return {all.data(), all.size()};
  }

  /// Once the episode is done: selects this agent, as if it had acted last. Returns whether it has
  /// a last observation.
  bool showLast(size_t agent);

private:
  struct State;
  explicit Driver(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

} // namespace mlbridge

#endif
