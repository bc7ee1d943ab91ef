// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Two agents put the nodes of a loop in order: `node` selects one, `distribute` says whether a new
// loop begins with it; then again, until none is left.
#ifndef MLBRIDGE_LOOP_DISTRIBUTION_ENVIRONMENT_H
#define MLBRIDGE_LOOP_DISTRIBUTION_ENVIRONMENT_H

#include "loop_embeddings.h"

#include <mlbridge/environment.h>
#include <mlbridge/model.h>

#include <vector>

namespace mlbridge::distribution {

class DistributionEnvironment final : public Environment {
public:
  enum Agent : size_t { Select, Distribute };

  /// Without embeddings.
  static Span<const AgentSpec> specs();
  /// Whether an agent's model asks for embeddings, and the inputs that the agent then has.
  static bool wantsEmbeddings(size_t Agent, const Model &Policy);
  static std::vector<TensorSpec> embeddingsFor(size_t Agent, size_t Dimension);

  /// Of a loop with at least one node. `Specs` is specs(), with embeddings for some of the agents;
  /// these come from `Vectors`, which may be null if none has.
  DistributionEnvironment(const LoopGraph &Of, Span<const AgentSpec> Specs,
                          const LoopEmbeddings *Vectors)
      : Of(Of), Specs(Specs), Vectors(Vectors) {}

  Span<const AgentSpec> agents() const override { return Specs; }
  Status reset(Observation &First) override;
  Status step(const Action &Taken, Observation &Next) override;

  /// The nodes of each loop, after an episode.
  const std::vector<llvm::BitVector> &loops() const { return Loops; }
  /// The nodes in the order in which they were selected.
  llvm::ArrayRef<unsigned> order() const { return Order; }
  /// The number of the loop that has a node.
  size_t loopOf(unsigned Node) const;

private:
  Status proceed(Observation &Next);
  Status select(unsigned Which, Observation &Next);
  void put(bool InNewLoop);
  /// Writes the embeddings that this agent has asked for.
  Status embed(Observation &To, Agent For);

  const LoopGraph &Of;
  const Span<const AgentSpec> Specs;
  const LoopEmbeddings *const Vectors;
  std::vector<llvm::BitVector> Loops;
  std::vector<unsigned> Order;
  llvm::BitVector Waiting;
  std::vector<uint8_t> Mask; ///< what may be answered
  FeatureVector Previous{};  ///< of the loop to which nodes are added
};

} // namespace mlbridge::distribution

#endif
