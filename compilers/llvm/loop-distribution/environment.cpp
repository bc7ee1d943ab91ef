// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "environment.h"

#include "llvm/ADT/STLExtras.h"

#include <algorithm>

namespace mlbridge::distribution {

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

/// Inputs with embeddings: of nodes, or of a node; and of the loop to which nodes are added.
static const char *nameFor(size_t Agent) {
  return Agent == DistributionEnvironment::Select ? "embeddings" : "embedding";
}
static constexpr const char *OfPrevious = "previous_embedding";

bool DistributionEnvironment::wantsEmbeddings(size_t Agent, const Model &Policy) {
  const Signature *Own = Policy.modelSignature();
  return Own && (Own->findInput(nameFor(Agent)) >= 0 || Own->findInput(OfPrevious) >= 0);
}

std::vector<TensorSpec> DistributionEnvironment::embeddingsFor(size_t Agent, size_t Dimension) {
  const auto Length = static_cast<int64_t>(Dimension);
  return {Agent == Select ? TensorSpec::of<float>(nameFor(Agent), {Dynamic, Length}, {MaxNodes, 0})
                          : TensorSpec::of<float>(nameFor(Agent), {Length}),
          TensorSpec::of<float>(OfPrevious, {Length})};
}

Status DistributionEnvironment::embed(Observation &To, Agent For) {
  if (Specs[For].signature.findInput(nameFor(For)) < 0)
    return Status();
  if (For == Select) {
    auto Rows = To.resize<float>(nameFor(For), {static_cast<int64_t>(Of.nodes().size()),
                                                static_cast<int64_t>(Vectors->dimension())});
    if (!Rows)
      return Rows.status();
    for (size_t I = 0; I < Of.nodes().size(); ++I)
      Vectors->sum(Of.nodes()[I].Needs, Rows->data() + I * Vectors->dimension());
  } else {
    Vectors->sum(Of.nodes()[Order.back()].Needs, To.input<float>(nameFor(For)).data());
  }
  const llvm::BitVector Before = Loops.empty() ? llvm::BitVector() : Of.needs(Loops.back());
  Vectors->sum(Before, To.input<float>(OfPrevious).data());
  return Status();
}

size_t DistributionEnvironment::loopOf(unsigned Node) const {
  return static_cast<size_t>(
      llvm::find_if(Loops, [&](const llvm::BitVector &Its) { return Its.test(Node); }) -
      Loops.begin());
}

Status DistributionEnvironment::reset(Observation &First) {
  Loops.clear();
  Order.clear();
  Previous = {};
  Waiting = llvm::BitVector(static_cast<unsigned>(Of.nodes().size()), true);
  return proceed(First);
}

Status DistributionEnvironment::proceed(Observation &Next) {
  const size_t Count = Of.nodes().size();
  Mask.assign(Count, 0);
  for (const unsigned Which : Waiting.set_bits())
    Mask[Which] = 1;
  for (const auto &[From, To] : Of.edges())
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
  const auto Nodes = static_cast<int64_t>(Count), Pairs = static_cast<int64_t>(Of.edges().size());
  auto Allowed = To.resize<bool>("action_mask", {Nodes});
  auto Rows = To.resize<float>("nodes", {Nodes, int64_t{Features}});
  auto Edges = To.resize<int32_t>("edges", {Pairs, int64_t{2}});
  if (!Allowed || !Rows || !Edges)
    return !Allowed ? Allowed.status() : !Rows ? Rows.status() : Edges.status();
  std::copy(Mask.begin(), Mask.end(), Allowed->begin());
  for (size_t I = 0; I < Count; ++I) {
    const FeatureVector &Its = Of.nodes()[I].Description;
    std::copy(Its.begin(), Its.end(), Rows->data() + I * Features);
  }
  for (size_t I = 0; I < Of.edges().size(); ++I) {
    (*Edges)[2 * I] = Of.edges()[I].first;
    (*Edges)[2 * I + 1] = Of.edges()[I].second;
  }
  if (Status Embedded = embed(To, Select); !Embedded)
    return Embedded;
  return To.set("previous", Previous);
}

Status DistributionEnvironment::select(unsigned Which, Observation &Next) {
  Order.push_back(Which);
  Waiting.reset(Which);
  if (Loops.empty()) {
    put(true);
    return proceed(Next);
  }
  Observation &To = Next.forAgent(Distribute);
  std::vector<llvm::BitVector> Apart = Loops;
  Apart.emplace_back(Waiting.size());
  Apart.back().set(Which);
  llvm::BitVector Together = Loops.back();
  Together.set(Which);
  Mask = {1, 1};
  (void)To.set("action_mask", {true, true});
  (void)embed(To, Distribute);
  (void)To.set("node", Of.nodes()[Which].Description);
  (void)To.set("previous", Previous);
  (void)To.set("together", Of.describe(Of.needs(Together)));
  llvm::BitVector Rest = Waiting;
  Rest.set(Which);
  (void)To.set("rest", Of.describe(Of.needs(Rest)));
  Rest |= Loops.back();
  (void)To.set("whole", Of.describe(Of.needs(Rest)));
  return To.set("checks", static_cast<int64_t>(Of.checks(Apart).size()));
}

void DistributionEnvironment::put(bool InNewLoop) {
  if (InNewLoop)
    Loops.emplace_back(Waiting.size());
  Loops.back().set(Order.back());
  Previous = Of.describe(Of.needs(Loops.back()));
}

Status DistributionEnvironment::step(const Action &Taken, Observation &Next) {
  const bool Selects = Taken.agent() == Select;
  const char *const Name = Selects ? "node" : "distribute";
  const Expected<int64_t> Choice = Taken.choice(Name, Mask.size());
  if (!Choice)
    return Choice.status();
  if (!Mask[static_cast<size_t>(*Choice)])
    return {Code::PolicyFailed, std::string(Name) + " " + std::to_string(*Choice) + " is masked"};
  if (Selects)
    return select(static_cast<unsigned>(*Choice), Next);
  put(*Choice == 1);
  return proceed(Next);
}

} // namespace mlbridge::distribution
