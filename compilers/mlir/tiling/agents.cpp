// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "shared/agents.h"

#include "question.h"

namespace mlbridge::tiling {

namespace {

Expected<FunctionModel> constant(const Uri &Address) {
  if (Status Known = Address.allowOnly({"size", "vectorize"}); !Known)
    return Known;
  const Expected<uint64_t> Size = Address.number("size", 32);
  const Expected<uint64_t> Vectorize = Address.number("vectorize", 1);
  if (!Size)
    return Size.status();
  if (!Vectorize)
    return Vectorize.status();
  const auto Answer = [Size = static_cast<int64_t>(*Size),
                       Vectorize = static_cast<int64_t>(*Vectorize)](FunctionCall &Call) {
    const Span<int64_t> Sizes = Call.out<int64_t>("sizes");
    std::fill(Sizes.begin(), Sizes.end(), Size);
    Call.out<int64_t>("vectorize")[0] = Vectorize;
    return Status();
  };
  return FunctionModel{signature(), {}, [Answer]() -> Function { return Answer; }};
}

/// Takes one iteration of each loop, some, a divisor of its length, or all; and vectors or none.
/// The answer is the same for an operation wherever it is.
Function random(uint64_t Seed) {
  return [Seed](FunctionCall &Call) {
    const Span<const float> Loops = Call.in<float>("loops");
    uint64_t Mixed = Seed;
    for (const float Column : Loops)
      Mixed = (Mixed ^ static_cast<uint64_t>(static_cast<int64_t>(Column))) * 0x9E3779B97F4A7C15U;
    std::mt19937_64 Generator(Mixed);
    const Span<int64_t> Sizes = Call.out<int64_t>("sizes");
    for (int64_t Loop = 0; Loop < MaxLoops; ++Loop) {
      const uint64_t Trips = std::max<uint64_t>(
          1, static_cast<uint64_t>(Loops[static_cast<size_t>(Loop * LoopColumns)]));
      uint64_t Size = 1;
      switch (Generator() % 4) {
      case 0:
        Size = 1 + Generator() % std::min<uint64_t>(Trips, 4);
        break;
      case 1:
        Size = 1 + Generator() % Trips;
        break;
      case 2:
        for (Size = 1 + Generator() % std::min<uint64_t>(Trips, 64); Trips % Size;)
          --Size;
        break;
      default:
        Size = Trips;
      }
      Sizes[static_cast<size_t>(Loop)] = static_cast<int64_t>(Size);
    }
    Call.out<int64_t>("vectorize")[0] = Generator() % 3 != 0;
    return Status();
  };
}

} // namespace

Status registerAgents() {
  if (Status Registered = registerFunction("constant", constant); !Registered)
    return Registered;
  return plugin::registerSeeded("random", signature(), random);
}

} // namespace mlbridge::tiling
