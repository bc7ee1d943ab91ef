// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What models see of a part of a loop.
#include "graph.h"

#include "llvm/Analysis/IVDescriptors.h"
#include "llvm/Analysis/VectorUtils.h"

#include <cmath>

using namespace llvm;

namespace mlbridge::distribution {

void LoopGraph::describePhis() {
  for (PHINode &Phi : L.getHeader()->phis()) {
    InductionDescriptor Induction;
    RecurrenceDescriptor Reduction;
    const unsigned At = Numbers[&Phi];
    if (InductionDescriptor::isInductionPHI(&Phi, &L, &Its.Evolution, Induction)) {
      IsInduction.set(At);
      continue;
    }
    if (RecurrenceDescriptor::isFixedOrderRecurrence(&Phi, &L, &Its.Dominators))
      continue;
    const bool Reduces = RecurrenceDescriptor::isReductionPHI(
        &Phi, &L, Reduction, nullptr, &Its.Assumptions, &Its.Dominators, &Its.Evolution);
    if (Reduces && (!Reduction.hasExactFPMath() || Its.Target.enableOrderedReductions()))
      IsReduction.set(At);
    else
      IsRecurrence.set(At);
  }
}

/// The column in which an operation counts; Features if it is not counted.
static Feature columnOf(const Instruction &I) {
  const bool Float = I.getType()->getScalarType()->isFloatingPointTy();
  switch (I.getOpcode()) {
  case Instruction::FAdd:
  case Instruction::FSub:
  case Instruction::FNeg:
    return FloatAdditions;
  case Instruction::FMul:
    return FloatMultiplications;
  case Instruction::FDiv:
  case Instruction::FRem:
    return FloatDivisions;
  case Instruction::Mul:
    return IntegerMultiplications;
  case Instruction::UDiv:
  case Instruction::SDiv:
  case Instruction::URem:
  case Instruction::SRem:
    return IntegerDivisions;
  case Instruction::ICmp:
  case Instruction::FCmp:
  case Instruction::Select:
    return Choices;
  case Instruction::Call:
    switch (cast<CallBase>(I).getIntrinsicID()) {
    case Intrinsic::fma:
    case Intrinsic::fmuladd:
      return FloatMultiplications;
    case Intrinsic::sqrt:
      return FloatDivisions;
    case Intrinsic::fabs:
      return FloatAdditions;
    case Intrinsic::abs:
      return IntegerOperations;
    default:
      return isHint(I) ? Features : isa<MinMaxIntrinsic>(I) || Float ? Choices : Calls;
    }
  default:
    return I.isCast() ? Conversions : I.isBinaryOp() ? IntegerOperations : Features;
  }
}

void LoopGraph::findCosts() {
  for (const Instruction *I : Instructions) {
    const auto Cost = [&](TargetTransformInfo::TargetCostKind Kind) -> unsigned {
      const InstructionCost Found = Its.Target.getInstructionCost(I, Kind);
      // What is impossible or very expensive counts as a call.
      constexpr InstructionCost::CostType Most = 64;
      return Found.isValid() ? static_cast<unsigned>(std::clamp(Found.getValue(), {}, Most)) : Most;
    };
    Latencies.push_back(Cost(TargetTransformInfo::TCK_Latency));
    ScalarCosts.push_back(Cost(TargetTransformInfo::TCK_RecipThroughput));
  }
  // From the uses to what they use.
  DenseMap<const Value *, bool> Linear;
  for (const Access &Its : Accesses)
    Linear.try_emplace(Instructions[Its.At], Its.Step.has_value());
  for (size_t At = Instructions.size(); At-- > 0;) {
    const Instruction &I = *Instructions[At];
    IsAddress[static_cast<unsigned>(At)] =
        !isa<PHINode, LoadInst, StoreInst>(I) && !I.use_empty() &&
        all_of(I.uses(), [&](const Use &Of) {
          const auto *Its = cast<Instruction>(Of.getUser());
          const auto Number = Numbers.find(Its);
          return Number != Numbers.end() &&
                 (IsAddress.test(Number->second) ||
                  (Linear.lookup(Its) && getLoadStorePointerOperand(Its) == &I));
        });
  }
}

float LoopGraph::latency(const BitVector &Needs) const {
  // The iterations run as if there were no end of execution units: values are ready when those are
  // that they are computed from. Most distances between iterations divide half of the rounds.
  constexpr unsigned Rounds = 96, Forwarding = 5;         // cycles from a store to a load
  SmallVector<std::pair<unsigned, const Pair *>, 8> Read; // a load, and its store
  for (const Pair &Of : Pairs) {
    const Access &First = Accesses[Of.First], &Second = Accesses[Of.Second];
    if (Of.By.empty() && Of.Backward && Of.Distance > 0 && Of.Distance <= Rounds / 2 &&
        !First.Writes && Needs.test(First.At) && Needs.test(Second.At))
      Read.emplace_back(First.At, &Of);
  }
  const auto Carried = [&](const BitVector &Which) { return Which.anyCommon(Needs); };
  if (Read.empty() && !Carried(IsReduction) && !Carried(IsRecurrence))
    return 0;
  std::vector<std::vector<unsigned>> Ready(Rounds, std::vector<unsigned>(Instructions.size()));
  std::array<unsigned, Rounds> Last{};
  for (unsigned Round = 0; Round < Rounds; ++Round)
    for (const unsigned At : Needs.set_bits()) {
      if (Control.test(At) || IsInduction.test(At))
        continue;
      const Instruction &I = *Instructions[At];
      unsigned When = 0;
      const auto After = [&](const Value *Of, unsigned In) {
        if (const auto *By = dyn_cast<Instruction>(Of))
          if (const auto Its = Numbers.find(By); Its != Numbers.end())
            When = std::max(When, Ready[In][Its->second]);
      };
      if (const auto *Phi = dyn_cast<PHINode>(&I)) {
        if (Round > 0)
          After(Phi->getIncomingValueForBlock(L.getLoopLatch()), Round - 1);
        Ready[Round][At] = When;
        continue;
      }
      for (const Value *Operand : I.operands())
        After(Operand, Round);
      bool InRegister = false;
      for (const auto &[Load, From] : Read) {
        if (Load != At || Round < From->Distance)
          continue;
        const Access &Store = Accesses[From->Second], &Its = Accesses[From->First];
        const auto &Before = Ready[Round - static_cast<unsigned>(From->Distance)];
        // LLVM keeps what the iteration before has stored in a register.
        if (From->Distance == 1 && Store.Size == Its.Size && std::abs(*Its.Step) == Its.Size) {
          InRegister = true;
          if (const auto By = Numbers.find(dyn_cast<Instruction>(
                  cast<StoreInst>(Instructions[Store.At])->getValueOperand()));
              By != Numbers.end())
            When = std::max(When, Before[By->second]);
        } else {
          When = std::max(When, Before[Store.At] + Forwarding);
        }
      }
      Ready[Round][At] = When + (InRegister ? 0 : Latencies[At]);
      Last[Round] = std::max(Last[Round], Ready[Round][At]);
    }
  // In sixteenths, so that models compute with them exactly.
  const unsigned Growth = Last[Rounds - 1] - Last[Rounds / 2 - 1];
  const unsigned Sixteenths = Growth * 16 / (Rounds / 2);
  return static_cast<float>(Sixteenths) / 16;
}

float LoopGraph::vectorCost(const BitVector &Needs, unsigned Lanes) const {
  const TargetTransformInfo &Target = Its.Target;
  constexpr auto Kind = TargetTransformInfo::TCK_RecipThroughput;
  const auto Wide = [Lanes](Type *Of) -> Type * {
    return VectorType::isValidElementType(Of) ? FixedVectorType::get(Of, Lanes) : Of;
  };
  InstructionCost Total = 0;
  for (const Access &Of : Accesses) {
    if (!Needs.test(Of.At))
      continue;
    const Instruction &I = *Instructions[Of.At];
    auto *const Value = Wide(getLoadStoreType(&I));
    const bool Vector = isa<VectorType>(Value), Invariant = Of.Step && *Of.Step == 0;
    if (Vector && Of.Step && std::abs(*Of.Step) == Of.Size) {
      Total += Target.getMemoryOpCost(I.getOpcode(), Value, getLoadStoreAlignment(&I),
                                      getLoadStoreAddressSpace(&I), Kind);
      if (*Of.Step < 0)
        Total += Target.getShuffleCost(TargetTransformInfo::SK_Reverse, cast<VectorType>(Value),
                                       cast<VectorType>(Value), {}, Kind);
    } else if (!Invariant || Of.Writes) {
      Total += Lanes * ScalarCosts[Of.At];
      if (Vector)
        Total += Target.getScalarizationOverhead(cast<VectorType>(Value), APInt::getAllOnes(Lanes),
                                                 !Of.Writes, Of.Writes, Kind);
    }
  }
  for (const unsigned At : Needs.set_bits()) {
    const Instruction &I = *Instructions[At];
    if (Control.test(At) || IsAddress.test(At) || isHint(I) || isa<LoadInst, StoreInst>(I))
      continue;
    Type *const To = Wide(I.getType());
    if (I.isBinaryOp() || I.isUnaryOp()) {
      const auto About = [&](unsigned Which) {
        return TargetTransformInfo::getOperandInfo(I.getOperand(Which));
      };
      Total += Target.getArithmeticInstrCost(I.getOpcode(), To, Kind, About(0),
                                             About(I.getNumOperands() - 1));
    } else if (I.isCast()) {
      Total += Target.getCastInstrCost(I.getOpcode(), To, Wide(I.getOperand(0)->getType()),
                                       TargetTransformInfo::getCastContextHint(&I), Kind);
    } else if (const auto *Compared = dyn_cast<CmpInst>(&I)) {
      Total += Target.getCmpSelInstrCost(I.getOpcode(), Wide(I.getOperand(0)->getType()), To,
                                         Compared->getPredicate(), Kind);
    } else if (isa<SelectInst>(I)) {
      Total += Target.getCmpSelInstrCost(I.getOpcode(), To, Wide(I.getOperand(0)->getType()),
                                         CmpInst::BAD_ICMP_PREDICATE, Kind);
    } else if (const auto *Call = dyn_cast<IntrinsicInst>(&I)) {
      SmallVector<Type *, 4> Arguments;
      for (const Value *Its : Call->args())
        Arguments.push_back(Wide(Its->getType()));
      Total += Target.getIntrinsicInstrCost(
          IntrinsicCostAttributes(Call->getIntrinsicID(), To, Arguments), Kind);
    }
  }
  return Total.isValid() ? static_cast<float>(Total.getValue()) / static_cast<float>(Lanes)
                         : std::numeric_limits<float>::max();
}

FeatureVector LoopGraph::describe(const BitVector &Needs) const {
  FeatureVector Made{};
  const auto Add = [&](Feature To, float What = 1) { Made[To] += What; };
  bool Refused = false;
  for (const unsigned At : Needs.set_bits()) {
    const Instruction &I = *Instructions[At];
    if (LeavesLoop.test(At) && !Control.test(At))
      Add(Results);
    if (IsReduction.test(At))
      Add(Reductions);
    if (IsRecurrence.test(At))
      Add(Recurrences);
    if (Control.test(At))
      continue;
    if (const Feature Column = columnOf(I); Column != Features)
      Add(Column);
    Type *const Of = isa<StoreInst>(I) ? getLoadStoreType(&I) : I.getType();
    Refused |= !Of->isVoidTy() && !VectorType::isValidElementType(Of);
    if (const auto *Call = dyn_cast<IntrinsicInst>(&I); Call && !isHint(I))
      Refused |= !isTriviallyVectorizable(Call->getIntrinsicID());
  }
  for (const Access &Its : Accesses) {
    if (!Needs.test(Its.At))
      continue;
    Add(Its.Writes ? Stores : Loads);
    Add(Bytes, static_cast<float>(Its.Size));
    Made[Width] = std::max(Made[Width], static_cast<float>(8 * Its.Size));
    Add(!Its.Step                         ? Irregular
        : *Its.Step == 0                  ? Invariant
        : std::abs(*Its.Step) == Its.Size ? Consecutive
                                          : Strided);
    Refused |= Its.Writes && (!Its.Step || *Its.Step == 0);
  }
  const auto Register = Its.Target.getRegisterBitWidth(TargetTransformInfo::RGK_FixedWidthVector);
  auto Lanes = static_cast<int64_t>(Register.getFixedValue());
  Lanes = Made[Width] == 0 ? 1 : Lanes / static_cast<int64_t>(Made[Width]);
  for (const Pair &Its : Pairs)
    if (Needs.test(Accesses[Its.First].At) && Needs.test(Accesses[Its.Second].At) &&
        Its.By.empty() && Its.Backward) {
      if (Its.Distance < 4)
        Add(Cycles);
      else
        Lanes = std::min(Lanes, Its.Distance);
    }
  Made[Blocks] = Refused || Made[Cycles] > 0 || Made[Recurrences] > 0 ? 1.0F : 0.0F;
  const unsigned Count = Its.Evolution.getSmallConstantTripCount(&L);
  Made[Trips] = Count ? std::log2(1.0F + static_cast<float>(Count)) : 0.0F;
  for (const unsigned At : Needs.set_bits())
    if (!Control.test(At) && !IsAddress.test(At))
      Add(ScalarCost, static_cast<float>(ScalarCosts[At]));
  Made[VectorCost] = Made[ScalarCost];
  if (Lanes > 1) {
    const auto Whole = static_cast<unsigned>(bit_floor(static_cast<uint64_t>(Lanes)));
    Made[VectorCost] = std::min(Made[VectorCost], vectorCost(Needs, Whole));
  }
  Made[Latency] = latency(Needs);
  return Made;
}

} // namespace mlbridge::distribution
