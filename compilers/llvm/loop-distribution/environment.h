// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Two agents put the nodes of a loop in order: `node` selects one, `distribute` says whether a new
// loop begins with it; then again, until none is left.
#ifndef MLBRIDGE_LOOP_DISTRIBUTION_ENVIRONMENT_H
#define MLBRIDGE_LOOP_DISTRIBUTION_ENVIRONMENT_H

#include "graph.h"

#include <mlbridge/environment.h>

#include <vector>

namespace mlbridge::distribution {

class DistributionEnvironment final : public Environment {
public:
  enum Agent : size_t { Select, Distribute };

  static Span<const AgentSpec> specs();

  /// Of a loop with at least one node.
  explicit DistributionEnvironment(const LoopGraph &Of) : Of(Of) {}

  Span<const AgentSpec> agents() const override { return specs(); }
  Status reset(Observation &First) override;
  Status step(const Action &Taken, Observation &Next) override;

  /// The nodes of each loop, after an episode.
  llvm::ArrayRef<llvm::BitVector> loops() const { return Loops; }
  /// The nodes in the order in which they were selected.
  llvm::ArrayRef<unsigned> order() const { return Order; }
  /// The number of the loop that has a node.
  size_t loopOf(unsigned Node) const;

private:
  Status proceed(Observation &Next);
  Status select(unsigned Which, Observation &Next);
  void put(bool InNewLoop);

  const LoopGraph &Of;
  std::vector<llvm::BitVector> Loops;
  std::vector<unsigned> Order;
  llvm::BitVector Waiting;
  std::vector<uint8_t> Mask; ///< what may be answered
  FeatureVector Previous{};  ///< of the loop to which nodes are added
};

} // namespace mlbridge::distribution

#endif
