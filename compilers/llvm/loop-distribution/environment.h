// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Two agents put the nodes of a loop in order: `node` selects one, `distribute` says whether a new
// loop begins with it; then again, until none is left.
#ifndef MLBRIDGE_LOOP_DISTRIBUTION_ENVIRONMENT_H
#define MLBRIDGE_LOOP_DISTRIBUTION_ENVIRONMENT_H

#include "embeddings.h"
#include "graph.h"

#include <mlbridge/environment.h>
#include <mlbridge/model.h>

#include <vector>

namespace mlbridge::loop_distribution {

/// Parts of a loop as vectors: each is the sum of its instructions, by IR2Vec, symbolic.
class LoopEmbeddings {
public:
  LoopEmbeddings(const LoopGraph &Graph, const embeddings::Vocabulary &Words)
      : Dimension(Words.dimension()), Vectors(Words.embed(Graph.instructions())) {}

  size_t dimension() const { return Dimension; }
  /// The sum of these instructions of the loop. `Out` has dimension() values.
  void sum(const llvm::BitVector &Numbers, float *Out) const;

private:
  const size_t Dimension;
  const std::vector<double> Vectors; ///< of each instruction, in their order
};

class DistributionEnvironment final : public Environment {
public:
  enum Agent : size_t { Select, Distribute };

  /// The agents without embeddings.
  static Span<const AgentSpec> specs();
  /// True if an agent's model asks for embeddings; and the inputs that the agent then has.
  static bool wantsEmbeddings(size_t Agent, const Model &Policy);
  static std::vector<TensorSpec> embeddingsFor(size_t Agent, size_t Dimension);

  /// An episode orders the nodes, at least one, of a loop. `Specs` is specs(), with embeddings for
  /// some of the agents; these come from `Vectors`, which may be null if none has.
  DistributionEnvironment(const LoopGraph &Graph, Span<const AgentSpec> Specs,
                          const LoopEmbeddings *Vectors)
      : Graph(Graph), Specs(Specs), Vectors(Vectors) {}

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
  Status select(unsigned Node, Observation &Next);
  void put(bool InNewLoop);
  /// Writes the embeddings that this agent has asked for.
  Status embed(Observation &To, Agent Reader);
  /// The features of a loop with these nodes.
  FeatureVector describe(const llvm::BitVector &Nodes) const {
    return Graph.describe(Graph.needs(Nodes));
  }

  const LoopGraph &Graph;
  const Span<const AgentSpec> Specs;
  const LoopEmbeddings *const Vectors;
  std::vector<llvm::BitVector> Loops;
  std::vector<unsigned> Order;
  llvm::BitVector Waiting;
  std::vector<uint8_t> Mask; ///< the allowed answers
  FeatureVector Previous{};  ///< of the loop to which nodes are added
};

/// Makes the agents that need no model known: function:heuristic, function:random?seed=N,
/// function:always and function:never. Each decides for both. Errors: InvalidArgument if the names
/// are taken.
Status registerAgents();

} // namespace mlbridge::loop_distribution

#endif
