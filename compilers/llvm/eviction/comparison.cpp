// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "comparison.h"

#include "llvm/ADT/SmallVector.h"

using namespace llvm;

namespace mlbridge::eviction {

Expected<bool> Comparison::takesModel() {
  if (Left == 0)
    return TakesModel;
  --Left;
  using Plan = std::pair<bool, bool>; // the model's answer is taken here, and after that
  const bool IsFirst = !Best;
  SmallVector<Plan, 2> Plans;
  if (IsFirst)
    Plans = {{true, true}, {false, false}};
  else
    Plans = {{!TakesModel, TakesModel}};
  SmallVector<std::optional<trial::AllocationCost>, 2> Costs(Plans.size());
  const Expected<std::optional<size_t>> Tried =
      trial::tryAllocations(MF, Registers, Frequencies, Costs);
  if (!Tried || *Tried) {
    Left = 0;
    TakesModel = Tried && Plans[**Tried].second;
    if (!Tried)
      return Tried.status();
    return Plans[**Tried].first;
  }
  if (IsFirst && !Costs[1]) { // LLVM will say why
    Left = 0;
    TakesModel = false;
    return false;
  }
  const trial::AllocationCost Usual = IsFirst ? *Costs[1] : *Best;
  const bool IsBetter = Costs[0] && Costs[0]->isBelow(Usual);
  if (IsFirst)
    TakesModel = IsBetter;
  Best = IsBetter ? *Costs[0] : Usual;
  if (!IsBetter)
    return TakesModel;
  trial::reportAllocation("regalloc-eviction", MF, *Best, Usual);
  return Plans[0].first;
}

} // namespace mlbridge::eviction
