// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The deciders in an environment: any Model for each of its agents, in process, out of process, or
// some here and some there.
#ifndef MLBRIDGE_AGENT_H
#define MLBRIDGE_AGENT_H

#include <mlbridge/model.h>
#include <mlbridge/runner.h>

#include <functional>
#include <memory>
#include <string>
#include <string_view>

namespace mlbridge {

class Environment;

/// One thread's agents: a Runner for each agent of an environment. Never null: what could not be
/// opened carries its failure, and an episode with it ends at once. Movable; used by one thread at
/// a time.
class Agents {
public:
  /// Without agents: status() is InvalidArgument.
  Agents();
  ~Agents();
  Agents(Agents &&) noexcept;
  Agents &operator=(Agents &&) noexcept;

  /// `uris` says where the model of each agent is:
  ///
  ///     unix:/run/policy.sock                     one model for all; the server is told the agent
  ///     onnx:models/{agent}.onnx?choose=argmax    {agent} is replaced by the agent's name
  ///     split=function:first; *=unix:/run/p.sock  NAME=URI separated by ';'; *=URI for all others
  ///
  /// Agents with the same URI share one Model: one connection, one file loaded. An agent without an
  /// entry has no model. Blocks as Model::open does, for each URI. Errors, in status(): those of
  /// Model::open and bind, with the agent; InvalidArgument (`uris` names an agent that does not
  /// exist, or one twice; the environment's agents are malformed).
  static Agents open(const Environment &environment, std::string_view uris,
                     const OpenOptions &options = {});
  static Agents open(Span<const AgentSpec> agents, std::string_view uris,
                     const OpenOptions &options = {});

  /// An agent's signature, if that depends on its model: an input that is expensive to compute may
  /// be stated only if the model's own signature (Model::modelSignature) or metadata asks for it.
  /// The model is bound to the AgentSpec's signature so far, which it may not fit.
  using SignatureFor = std::function<Expected<Signature>(size_t agent, const Model &model)>;
  /// The same, asking `signatureFor` once for each agent that has a model, before this returns.
  /// specs() then has those signatures, and the environment's agents() must state them in run().
  /// The first error that it gives becomes that of status(), with the agent.
  static Agents open(Span<const AgentSpec> agents, std::string_view uris,
                     const OpenOptions &options, const SignatureFor &signatureFor);

  /// Lets this model decide for the agent, in place of the current one. It may be a model that the
  /// program made itself. Errors: InvalidArgument (no such agent), Mismatch, the model's failure.
  Status set(std::string_view agent, const Model &model);

  /// The environment's agents, in its order, with the signatures that open was given.
  Span<const AgentSpec> specs() const;
  /// Ok, or the first failure: NotFound if an agent has no model.
  Status status() const;
  explicit operator bool() const { return status().ok(); }
  bool hasModel(size_t agent) const; ///< whether the agent has a model
  Runner &runner(size_t agent);      ///< requires agent < specs().size()

  /// For another thread: Runners of its own for the same models.
  Agents newAgents() const;

private:
  friend struct EpisodePlayer;
  struct State;
  std::unique_ptr<State> state_;
};

} // namespace mlbridge

#endif
