// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "explore.h"

#include <mlbridge/function.h>
#include <mlbridge/model.h>

#include "llvm/Support/xxhash.h"

#include <optional>

using namespace llvm;

namespace mlbridge::inliner {

static constexpr const char *Decision = "inlining_decision";

static Expected<int64_t> heuristic(FunctionCall &Call) {
  const Span<const int64_t> Default = Call.in<int64_t>("inlining_default");
  if (Default.empty())
    return Status(Code::Mismatch, "expected an input inlining_default");
  return Default[0];
}

static Expected<int64_t> ask(FunctionCall &Call, Runner &Other) {
  for (const TensorSpec &Input : Other.signature()->inputs)
    if (Status S = Other.set(Input.name, Call.in<int64_t>(Input.name)); !S)
      return S;
  return Other.evaluate<int64_t>();
}

/// SplitMix64 (Steele, Lea, Flood 2014).
static uint64_t mix(uint64_t Z) {
  Z = (Z ^ Z >> 30) * 0xbf58476d1ce4e5b9;
  Z = (Z ^ Z >> 27) * 0x94d049bb133111eb;
  return Z ^ Z >> 31;
}

static int64_t value(const FunctionCall &Call, const char *Name) {
  const Span<const int64_t> Input = Call.in<int64_t>(Name);
  return Input.empty() ? 0 : Input[0];
}

static Expected<FunctionModel> flip(const Uri &From) {
  if (Status S = From.allowOnly({"seed", "probability", "margin", "of"}); !S)
    return S;
  const Expected<uint64_t> Seed = From.number("seed", 0);
  if (!Seed)
    return Seed.status();
  double Probability = 0;
  if (StringRef(From.option("probability")).getAsDouble(Probability) || Probability < 0 ||
      Probability > 1)
    return Status(Code::InvalidArgument,
                  "function:flip: probability: expected a number from 0 to 1, got '" +
                      From.option("probability") + "'");
  const Expected<uint64_t> Margin = From.number("margin", 0);
  if (!Margin)
    return Margin.status();
  std::optional<mlbridge::Model> Other;
  if (const std::string Uri = From.option("of"); !Uri.empty()) {
    Other = mlbridge::Model::open(Uri);
    if (!Other->status() || !Other->modelSignature() ||
        !Other->bind({Other->modelSignature()->inputs, {TensorSpec::of<int64_t>(Decision, {1})}}))
      return Other->status();
  }
  FunctionModel Model;
  Model.newFunction = [Seed = *Seed, Probability, Margin = int64_t(*Margin), Other]() -> Function {
    const auto OtherRunner = Other ? std::make_shared<Runner>(Other->newRunner()) : nullptr;
    return [=, State = std::optional<uint64_t>()](FunctionCall &Call) mutable -> Status {
      const Span<int64_t> To = Call.out<int64_t>(Decision);
      Expected<int64_t> Usual = OtherRunner ? ask(Call, *OtherRunner) : heuristic(Call);
      if (!Usual || To.empty())
        return Usual ? Status(Code::Mismatch, std::string("expected an output ") + Decision)
                     : Usual.status();
      uint64_t Z;
      if (Margin) { // all calls of a function alike, as far as the features tell functions apart
        Z = Seed + xxh3_64bits(Call.context().unit);
        for (const char *Name : {"callee_users", "callee_basic_block_count",
                                 "callee_conditionally_executed_blocks", "callsite_height"})
          Z = mix(Z + uint64_t(value(Call, Name)));
        const int64_t Cost = value(Call, "cost_estimate");
        if (Cost <= -Margin || Cost >= Margin)
          Z = ~uint64_t(0);
      } else {
        if (!State)
          State = Seed + xxh3_64bits(Call.context().unit);
        Z = mix(*State += 0x9e3779b97f4a7c15);
      }
      const bool Flip = double(Z >> 11) * 0x1p-53 < Probability;
      To[0] = *Usual ^ int64_t(Flip);
      return Status();
    };
  };
  return Model;
}

void registerExploration() {
  static const Status Once = registerFunction("flip", flip);
  (void)Once;
}

} // namespace mlbridge::inliner
