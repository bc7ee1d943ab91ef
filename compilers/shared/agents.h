// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Models that plugins have built in, as function:NAME. Depends on no compiler.
#ifndef MLBRIDGE_COMPILERS_SHARED_AGENTS_H
#define MLBRIDGE_COMPILERS_SHARED_AGENTS_H

#include <mlbridge/function.h>
#include <mlbridge/uri.h>

#include <algorithm>
#include <functional>
#include <optional>
#include <random>
#include <utility>

namespace mlbridge::plugin {

/// Makes function:NAME the answers of a function without options. Errors: those of
/// registerFunction.
inline Status registerAgent(const char *Name, Function Answer) {
  return registerFunction(Name, [Answer = std::move(Answer)](const Uri &Address) {
    const Status Known = Address.allowOnly({});
    return Known ? Expected<FunctionModel>(FunctionModel{{}, {}, [Answer] { return Answer; }})
                 : Known;
  });
}

/// Makes function:NAME?seed=N a model, each Runner of which has a function of its own. Without a
/// signature it takes whatever its caller states. Errors: those of registerFunction.
inline Status registerSeeded(const char *Name, std::optional<Signature> Own,
                             std::function<Function(uint64_t Seed)> Make) {
  const auto Open = [Own = std::move(Own),
                     Make = std::move(Make)](const Uri &Address) -> Expected<FunctionModel> {
    if (Status Known = Address.allowOnly({"seed"}); !Known)
      return Known;
    const Expected<uint64_t> Seed = Address.number("seed", 0);
    if (!Seed)
      return Seed.status();
    return FunctionModel{Own, {}, [Make, Seed = *Seed] { return Make(Seed); }};
  };
  return registerFunction(Name, Open);
}

/// Makes function:random?seed=N agents that take any of the answers that "action_mask" allows, all
/// with one probability.
inline Status registerRandomAgent() {
  return registerSeeded("random", std::nullopt, [](uint64_t Seed) -> Function {
    return [Generator = std::mt19937_64(Seed)](FunctionCall &Call) mutable {
      const Span<const bool> Mask = Call.in<bool>("action_mask");
      const auto Allowed = static_cast<uint64_t>(std::count(Mask.begin(), Mask.end(), true));
      uint64_t Skipped = Generator() % std::max<uint64_t>(Allowed, 1);
      for (size_t I = 0; I < Mask.size(); ++I)
        if (Mask[I] && Skipped-- == 0)
          Call.output(0).as<int64_t>()[0] = static_cast<int64_t>(I);
      return Status();
    };
  });
}

} // namespace mlbridge::plugin

#endif
