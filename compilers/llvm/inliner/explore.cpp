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

static Expected<int64_t> ask(FunctionCall &Call, Runner &Of) {
  for (const TensorSpec &Input : Of.signature()->inputs)
    if (Status S = Of.set(Input.name, Call.in<int64_t>(Input.name)); !S)
      return S;
  return Of.evaluate<int64_t>();
}

static Expected<FunctionModel> flip(const Uri &From) {
  if (Status S =
          From.allowOnly({"seed", "probability", "of", "deadline", "agent", "episode", "context"});
      !S)
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
  std::optional<mlbridge::Model> Of;
  if (const std::string Uri = From.option("of"); !Uri.empty()) {
    Of = mlbridge::Model::open(Uri);
    if (!Of->status() || !Of->modelSignature() ||
        !Of->bind({Of->modelSignature()->inputs, {TensorSpec::of<int64_t>(Decision, {1})}}))
      return Of->status();
  }
  FunctionModel Model;
  Model.newFunction = [Seed = *Seed, Probability, Of]() -> Function {
    const auto Asked = Of ? std::make_shared<Runner>(Of->newRunner()) : nullptr;
    return [=, State = std::optional<uint64_t>()](FunctionCall &Call) mutable -> Status {
      const Span<int64_t> To = Call.out<int64_t>(Decision);
      Expected<int64_t> Usual = Asked ? ask(Call, *Asked) : heuristic(Call);
      if (!Usual || To.empty())
        return Usual ? Status(Code::Mismatch, std::string("expected an output ") + Decision)
                     : Usual.status();
      if (!State)
        State = Seed + xxh3_64bits(Call.context().context);
      // SplitMix64 (Steele, Lea, Flood 2014).
      uint64_t Z = *State += 0x9e3779b97f4a7c15;
      Z = (Z ^ Z >> 30) * 0xbf58476d1ce4e5b9;
      Z = (Z ^ Z >> 27) * 0x94d049bb133111eb;
      const bool Flip = double((Z ^ Z >> 31) >> 11) * 0x1p-53 < Probability;
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
