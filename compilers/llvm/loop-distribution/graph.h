// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// An innermost loop as a graph: what must be computed together, and what must not come after what.
// Changes nothing.
#ifndef MLBRIDGE_LOOP_DISTRIBUTION_GRAPH_H
#define MLBRIDGE_LOOP_DISTRIBUTION_GRAPH_H

#include "llvm/ADT/BitVector.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/Analysis/AliasAnalysis.h"
#include "llvm/Analysis/AssumptionCache.h"
#include "llvm/Analysis/LoopAccessAnalysis.h"
#include "llvm/Analysis/LoopInfo.h"
#include "llvm/Analysis/ScalarEvolution.h"
#include "llvm/Analysis/TargetTransformInfo.h"
#include "llvm/IR/Dominators.h"
#include "llvm/IR/IntrinsicInst.h"

#include <array>
#include <string>
#include <vector>

namespace mlbridge::loop_distribution {

/// Analyses of one function.
struct Analyses {
  llvm::AAResults &Aliases;
  llvm::AssumptionCache &Assumptions;
  llvm::DominatorTree &Dominators;
  llvm::LoopInfo &Loops;
  llvm::ScalarEvolution &Evolution;
  llvm::LoopAccessInfoManager &Accesses;
  llvm::TargetTransformInfo &Target;
};

enum : size_t {
  MaxInstructions = 1024, ///< of a loop
  MaxAccesses = 128,      ///< loads and stores of a loop
  MaxNodes = 64,
  MaxChecks = 16, ///< comparisons at run time before a loop
};

/// Columns of the features of a node, or of several in one loop. Counts are of instructions,
/// without those that every loop needs, which count its trips.
enum Feature : size_t {
  Stores,
  Loads,
  IntegerOperations,
  IntegerMultiplications,
  IntegerDivisions,
  FloatAdditions,
  FloatMultiplications,
  FloatDivisions, ///< and remainders and square roots
  Choices,        ///< comparisons, selects, minima and maxima
  Conversions,
  Calls,       ///< of other intrinsics
  Consecutive, ///< accesses whose addresses grow by their size
  Strided,     ///< accesses whose addresses grow by another constant
  Invariant,   ///< accesses of one address
  Irregular,   ///< all other accesses
  Bytes,       ///< read and written in an iteration
  Reductions,  ///< that are vectorizable
  Recurrences, ///< other values that depend on the iteration before, without those of memory
  Cycles,      ///< pairs of accesses that depend on an iteration less than 4 before, or may
  Results,     ///< values that are used after the loop
  Width,       ///< of the widest element, in bits
  Blocks,      ///< 1 if the loop vectorizer is likely to refuse it
  Trips,       ///< log2(1 + trips of the loop); 0 if they are not known
  Latency,     ///< cycles in which an iteration waits for results of those before it
  ScalarCost,  ///< of an iteration, by LLVM's cost model
  VectorCost,  ///< of an iteration as a part of one of vectors, by the same; at most ScalarCost
  Features
};
using FeatureVector = std::array<float, Features>;

/// Instructions that no loop needs, and that may go.
inline bool isHint(const llvm::Instruction &I) { return llvm::isa<llvm::AssumeInst>(I); }

class LoopGraph {
public:
  /// Stores and results that can't be separated, and what they need.
  struct Node {
    llvm::SmallVector<unsigned, 2> Roots; ///< instructions that store, or whose values leave
    llvm::BitVector Needs;                ///< all instructions from which they are computed
    FeatureVector Description{};
  };

  /// Why the loop is none that can be distributed; empty if it may be.
  static std::string refusal(const llvm::Loop &L, const Analyses &Analysis);

  /// Requires that there is no refusal. With `MayCheck`, arrays that may overlap but can be
  /// compared before the loop count as apart.
  LoopGraph(llvm::Loop &L, const Analyses &Analysis, bool MayCheck);

  llvm::Loop &loop() const { return L; }
  llvm::ArrayRef<Node> nodes() const { return Nodes; }
  /// The first of a pair must not come after the second. Without cycles.
  llvm::ArrayRef<std::pair<int32_t, int32_t>> edges() const { return Edges; }
  llvm::ArrayRef<llvm::Instruction *> instructions() const { return Instructions; }
  /// The instructions of the loop that has these nodes.
  llvm::BitVector needs(const llvm::BitVector &Nodes) const;
  /// The features of a loop with these instructions.
  FeatureVector describe(const llvm::BitVector &Needs) const;

  /// True if loops, in their order, each with the nodes of one set, do what the loop does. Looks at
  /// pairs of accesses, not at edges.
  bool isLegal(llvm::ArrayRef<llvm::BitVector> Loops) const;
  /// The comparisons for which these loops are legal.
  llvm::SmallVector<llvm::RuntimePointerCheck, 4>
  checks(llvm::ArrayRef<llvm::BitVector> Loops) const;

private:
  struct Access {
    unsigned Number = 0; ///< of the instruction
    bool Writes = false;
    llvm::MemoryLocation Location; ///< of all iterations
    const llvm::SCEV *Start = nullptr;
    std::optional<int64_t> Step; ///< in bytes
    int64_t Size = 0;
  };
  /// How two accesses depend on each other, the first one being first in the program.
  struct Pair {
    unsigned First = 0, Second = 0; ///< accesses
    bool Forward = true;            ///< the second may depend on the first
    bool Backward = true;           ///< the first may depend on the second, of an earlier iteration
    int64_t Distance = 0;           ///< iterations, of the nearest backward; 0: not known
    llvm::SmallVector<unsigned, 1> Checks; ///< without which both may be
  };

  void findAccesses();
  void findPairs(llvm::BatchAAResults &Aliases, bool MayCheck);
  void findNodes();
  bool compare(const Access &First, const Access &Second, Pair &Result) const;
  llvm::BitVector closure(const llvm::Instruction *Root) const;
  void describePhis();
  void findCosts();
  float latency(const llvm::BitVector &Needs) const;
  float vectorCost(const llvm::BitVector &Needs, unsigned Lanes) const;
  /// Calls Visit(X, Y) for each order of a pair's instructions: X must not come after Y.
  template <typename Visitor> bool forEachOrder(const Pair &Accessed, const Visitor &Visit) const;

  llvm::Loop &L;
  const Analyses &Analysis;
  std::vector<llvm::Instruction *> Instructions; ///< in program order
  llvm::DenseMap<const llvm::Instruction *, unsigned> Numbers;
  std::vector<Access> Accesses;
  std::vector<Pair> Pairs;
  llvm::SmallVector<llvm::RuntimePointerCheck, 8> Checks;
  llvm::BitVector Control; ///< instructions that every loop needs
  llvm::BitVector LeavesLoop, IsReduction, IsRecurrence, IsInduction;
  llvm::BitVector IsAddress; ///< computes only addresses that LLVM knows to be linear
  std::vector<unsigned> Latencies, ScalarCosts; ///< of each instruction
  std::optional<int64_t> MostTrips;
  std::vector<Node> Nodes;
  std::vector<std::pair<int32_t, int32_t>> Edges;
};

} // namespace mlbridge::loop_distribution

#endif
