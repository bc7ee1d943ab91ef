// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "environment.h"

#include "plugin/agent_models.h"
#include "vocabulary_file.h"

#include "llvm/ADT/STLExtras.h"

#include <algorithm>

namespace mlbridge::loop_distribution {

void LoopEmbeddings::sum(const llvm::BitVector &Numbers, float *Out) const {
  std::vector<double> Sum(Dimension);
  for (const unsigned I : Numbers.set_bits())
    for (size_t Column = 0; Column < Dimension; ++Column)
      Sum[Column] += Vectors[I * Dimension + Column];
  std::transform(Sum.begin(), Sum.end(), Out, embeddings::asFloat);
}

Span<const AgentSpec> DistributionEnvironment::specs() {
  using Spec = TensorSpec;
  static const int64_t Columns = Features;
  static const std::vector<AgentSpec> Agents = {
      {"node",
       {{Spec::of<bool>("action_mask", {Dynamic}, {MaxNodes}),
         Spec::of<float>("nodes", {Dynamic, Columns}, {MaxNodes, 0}),
         Spec::of<int32_t>("edges", {Dynamic, 2}, {MaxNodes * (MaxNodes - 1) / 2, 0}),
         Spec::of<float>("previous", {Columns})},
        {Spec::of<int64_t>("node")}}},
      {"distribute",
       {{Spec::of<bool>("action_mask", {2}), Spec::of<float>("node", {Columns}),
         Spec::of<float>("previous", {Columns}), Spec::of<float>("together", {Columns}),
         Spec::of<float>("rest", {Columns}), Spec::of<float>("whole", {Columns}),
         Spec::of<int64_t>("checks")},
        {Spec::of<int64_t>("distribute")}}}};
  return Agents;
}

/// The input with the embedding of the loop to which nodes are added.
static constexpr const char *PreviousEmbedding = "previous_embedding";

bool DistributionEnvironment::wantsEmbeddings(size_t Agent, const Model &Policy) {
  const Signature *Own = Policy.modelSignature();
  return Own && (Own->findInput(plugin::embeddingName(Agent)) >= 0 ||
                 Own->findInput(PreviousEmbedding) >= 0);
}

std::vector<TensorSpec> DistributionEnvironment::embeddingsFor(size_t Agent, size_t Dimension) {
  return {plugin::embeddingSpec(Agent, Dimension, MaxNodes),
          TensorSpec::of<float>(PreviousEmbedding, {static_cast<int64_t>(Dimension)})};
}

Status DistributionEnvironment::embed(Observation &To, Agent Reader) {
  const char *const Input = plugin::embeddingName(Reader);
  if (Specs[Reader].signature.findInput(Input) < 0)
    return Status();
  const auto Nodes = Graph.nodes();
  if (Reader == Select) {
    auto Rows = To.resize<float>(
        Input, {static_cast<int64_t>(Nodes.size()), static_cast<int64_t>(Vectors->dimension())});
    if (!Rows)
      return Rows.status();
    for (size_t I = 0; I < Nodes.size(); ++I)
      Vectors->sum(Nodes[I].Needs, Rows->data() + I * Vectors->dimension());
  } else {
    Vectors->sum(Nodes[Order.back()].Needs, To.input<float>(Input).data());
  }
  const llvm::BitVector Before = Loops.empty() ? llvm::BitVector() : Graph.needs(Loops.back());
  Vectors->sum(Before, To.input<float>(PreviousEmbedding).data());
  return Status();
}

size_t DistributionEnvironment::loopOf(unsigned Node) const {
  return static_cast<size_t>(
      llvm::find_if(Loops, [&](const llvm::BitVector &Nodes) { return Nodes.test(Node); }) -
      Loops.begin());
}

Status DistributionEnvironment::reset(Observation &First) {
  Loops.clear();
  Order.clear();
  Previous = {};
  Waiting = llvm::BitVector(static_cast<unsigned>(Graph.nodes().size()), true);
  return proceed(First);
}

Status DistributionEnvironment::proceed(Observation &Next) {
  const size_t Count = Graph.nodes().size();
  Mask.assign(Count, 0);
  for (const unsigned Node : Waiting.set_bits())
    Mask[Node] = 1;
  for (const auto &[From, To] : Graph.edges())
    if (Waiting.test(static_cast<unsigned>(From)))
      Mask[static_cast<size_t>(To)] = 0;
  const auto Ready = std::count(Mask.begin(), Mask.end(), 1);
  if (Ready == 0) {
    setDone();
    return Status();
  }
  if (Ready == 1)
    return select(static_cast<unsigned>(std::find(Mask.begin(), Mask.end(), 1) - Mask.begin()),
                  Next);
  Observation &To = Next.forAgent(Select);
  const auto Nodes = static_cast<int64_t>(Count),
             Pairs = static_cast<int64_t>(Graph.edges().size());
  auto Allowed = To.resize<bool>("action_mask", {Nodes});
  auto Rows = To.resize<float>("nodes", {Nodes, int64_t{Features}});
  auto Edges = To.resize<int32_t>("edges", {Pairs, int64_t{2}});
  if (!Allowed || !Rows || !Edges)
    return !Allowed ? Allowed.status() : !Rows ? Rows.status() : Edges.status();
  std::copy(Mask.begin(), Mask.end(), Allowed->begin());
  for (size_t I = 0; I < Count; ++I) {
    const FeatureVector &Row = Graph.nodes()[I].Description;
    std::copy(Row.begin(), Row.end(), Rows->data() + I * Features);
  }
  for (size_t I = 0; I < Graph.edges().size(); ++I) {
    (*Edges)[2 * I] = Graph.edges()[I].first;
    (*Edges)[2 * I + 1] = Graph.edges()[I].second;
  }
  if (Status Embedded = embed(To, Select); !Embedded)
    return Embedded;
  return To.set("previous", Previous);
}

Status DistributionEnvironment::select(unsigned Node, Observation &Next) {
  Order.push_back(Node);
  Waiting.reset(Node);
  if (Loops.empty()) {
    put(true);
    return proceed(Next);
  }
  Observation &To = Next.forAgent(Distribute);
  std::vector<llvm::BitVector> Apart = Loops;
  Apart.emplace_back(Waiting.size());
  Apart.back().set(Node);
  llvm::BitVector Together = Loops.back();
  Together.set(Node);
  Mask = {1, 1};
  (void)To.set("action_mask", {true, true});
  (void)embed(To, Distribute);
  (void)To.set("node", Graph.nodes()[Node].Description);
  (void)To.set("previous", Previous);
  (void)To.set("together", describe(Together));
  llvm::BitVector Rest = Waiting;
  Rest.set(Node);
  (void)To.set("rest", describe(Rest));
  Rest |= Loops.back();
  (void)To.set("whole", describe(Rest));
  return To.set("checks", static_cast<int64_t>(Graph.checks(Apart).size()));
}

void DistributionEnvironment::put(bool InNewLoop) {
  if (InNewLoop)
    Loops.emplace_back(Waiting.size());
  Loops.back().set(Order.back());
  Previous = describe(Loops.back());
}

Status DistributionEnvironment::step(const Action &Taken, Observation &Next) {
  const bool Selects = Taken.agent() == Select;
  const char *const Name = Selects ? "node" : "distribute";
  const Expected<size_t> Choice = plugin::allowedChoice(Taken, Name, Mask);
  if (!Choice)
    return Choice.status();
  if (Selects)
    return select(static_cast<unsigned>(*Choice), Next);
  put(*Choice == 1);
  return proceed(Next);
}

} // namespace mlbridge::loop_distribution
