// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The features that models see of a part of a loop.
#include "graph.h"

#include "llvm/Analysis/IVDescriptors.h"
#include "llvm/Analysis/VectorUtils.h"

#include <cmath>

using namespace llvm;

namespace mlbridge::loop_distribution {

void LoopGraph::describePhis() {
  for (PHINode &Phi : L.getHeader()->phis()) {
    InductionDescriptor Induction;
    RecurrenceDescriptor Reduction;
    const unsigned Number = Numbers[&Phi];
    if (InductionDescriptor::isInductionPHI(&Phi, &L, &Analysis.Evolution, Induction)) {
      IsInduction.set(Number);
      continue;
    }
    if (RecurrenceDescriptor::isFixedOrderRecurrence(&Phi, &L, &Analysis.Dominators))
      continue;
    const bool Reduces =
        RecurrenceDescriptor::isReductionPHI(&Phi, &L, Reduction, nullptr, &Analysis.Assumptions,
                                             &Analysis.Dominators, &Analysis.Evolution);
    if (Reduces && (!Reduction.hasExactFPMath() || Analysis.Target.enableOrderedReductions()))
      IsReduction.set(Number);
    else
      IsRecurrence.set(Number);
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
    const auto CostOf = [&](TargetTransformInfo::TargetCostKind Kind) -> unsigned {
      const InstructionCost Cost = Analysis.Target.getInstructionCost(I, Kind);
      // Something impossible or very expensive counts as a call.
      constexpr InstructionCost::CostType Most = 64;
      return Cost.isValid() ? static_cast<unsigned>(std::clamp(Cost.getValue(), {}, Most)) : Most;
    };
    Latencies.push_back(CostOf(TargetTransformInfo::TCK_Latency));
    ScalarCosts.push_back(CostOf(TargetTransformInfo::TCK_RecipThroughput));
  }
  DenseMap<const Value *, bool> Linear;
  for (const Access &Next : Accesses)
    Linear.try_emplace(Instructions[Next.Number], Next.Step.has_value());
  // Uses come before the instructions that they use.
  for (size_t At = Instructions.size(); At-- > 0;) {
    const Instruction &I = *Instructions[At];
    IsAddress[static_cast<unsigned>(At)] =
        !isa<PHINode, LoadInst, StoreInst>(I) && !I.use_empty() &&
        all_of(I.users(), [&](const User *U) {
          const auto Number = Numbers.find(cast<Instruction>(U));
          return Number != Numbers.end() &&
                 (IsAddress.test(Number->second) ||
                  (Linear.lookup(U) && getLoadStorePointerOperand(U) == &I));
        });
  }
}

float LoopGraph::latency(const BitVector &Needs) const {
  // The iterations run as if there were no end of execution units: values are ready when those are
  // that they are computed from. Most distances between iterations divide half of the rounds.
  constexpr unsigned Rounds = 96, Forwarding = 5;         // cycles from a store to a load
  SmallVector<std::pair<unsigned, const Pair *>, 8> Read; // a load, and its store
  for (const Pair &Accessed : Pairs) {
    const Access &First = Accesses[Accessed.First], &Second = Accesses[Accessed.Second];
    if (Accessed.Checks.empty() && Accessed.Backward && Accessed.Distance > 0 &&
        Accessed.Distance <= Rounds / 2 && !First.Writes && Needs.test(First.Number) &&
        Needs.test(Second.Number))
      Read.emplace_back(First.Number, &Accessed);
  }
  if (Read.empty() && !IsReduction.anyCommon(Needs) && !IsRecurrence.anyCommon(Needs))
    return 0;
  std::vector<std::vector<unsigned>> Ready(Rounds, std::vector<unsigned>(Instructions.size()));
  std::array<unsigned, Rounds> Last{};
  for (unsigned Round = 0; Round < Rounds; ++Round)
    for (const unsigned At : Needs.set_bits()) {
      if (Control.test(At) || IsInduction.test(At))
        continue;
      const Instruction &I = *Instructions[At];
      unsigned When = 0;
      const auto After = [&](const Value *Operand, unsigned In) {
        if (const auto *Computed = dyn_cast<Instruction>(Operand))
          if (const auto Number = Numbers.find(Computed); Number != Numbers.end())
            When = std::max(When, Ready[In][Number->second]);
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
        const Access &Store = Accesses[From->Second], &Loaded = Accesses[From->First];
        const auto &Before = Ready[Round - static_cast<unsigned>(From->Distance)];
        // LLVM keeps the value that the iteration before has stored in a register.
        if (From->Distance == 1 && Store.Size == Loaded.Size &&
            std::abs(*Loaded.Step) == Loaded.Size) {
          InRegister = true;
          if (const auto Stored = Numbers.find(dyn_cast<Instruction>(
                  cast<StoreInst>(Instructions[Store.Number])->getValueOperand()));
              Stored != Numbers.end())
            When = std::max(When, Before[Stored->second]);
        } else {
          When = std::max(When, Before[Store.Number] + Forwarding);
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
  const TargetTransformInfo &Target = Analysis.Target;
  constexpr auto Kind = TargetTransformInfo::TCK_RecipThroughput;
  const auto Wide = [Lanes](Type *Scalar) -> Type * {
    return VectorType::isValidElementType(Scalar) ? FixedVectorType::get(Scalar, Lanes) : Scalar;
  };
  InstructionCost Total = 0;
  for (const Access &Next : Accesses) {
    if (!Needs.test(Next.Number))
      continue;
    const Instruction &I = *Instructions[Next.Number];
    auto *const Value = Wide(getLoadStoreType(&I));
    const bool IsVector = isa<VectorType>(Value), IsInvariant = Next.Step && *Next.Step == 0;
    if (IsVector && Next.Step && std::abs(*Next.Step) == Next.Size) {
      Total += Target.getMemoryOpCost(I.getOpcode(), Value, getLoadStoreAlignment(&I),
                                      getLoadStoreAddressSpace(&I), Kind);
      if (*Next.Step < 0)
        Total += Target.getShuffleCost(TargetTransformInfo::SK_Reverse, cast<VectorType>(Value),
                                       cast<VectorType>(Value), {}, Kind);
    } else if (!IsInvariant || Next.Writes) {
      Total += Lanes * ScalarCosts[Next.Number];
      if (IsVector)
        Total += Target.getScalarizationOverhead(cast<VectorType>(Value), APInt::getAllOnes(Lanes),
                                                 !Next.Writes, Next.Writes, Kind);
    }
  }
  for (const unsigned At : Needs.set_bits()) {
    const Instruction &I = *Instructions[At];
    if (Control.test(At) || IsAddress.test(At) || isHint(I) || isa<LoadInst, StoreInst>(I))
      continue;
    Type *const To = Wide(I.getType());
    if (I.isBinaryOp() || I.isUnaryOp()) {
      const auto InfoOf = [&](unsigned Operand) {
        return TargetTransformInfo::getOperandInfo(I.getOperand(Operand));
      };
      Total += Target.getArithmeticInstrCost(I.getOpcode(), To, Kind, InfoOf(0),
                                             InfoOf(I.getNumOperands() - 1));
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
      for (const Value *Argument : Call->args())
        Arguments.push_back(Wide(Argument->getType()));
      Total += Target.getIntrinsicInstrCost(
          IntrinsicCostAttributes(Call->getIntrinsicID(), To, Arguments), Kind);
    }
  }
  return Total.isValid() ? static_cast<float>(Total.getValue()) / static_cast<float>(Lanes)
                         : std::numeric_limits<float>::max();
}

FeatureVector LoopGraph::describe(const BitVector &Needs) const {
  FeatureVector Row{};
  const auto Add = [&](Feature Column, float Count = 1) { Row[Column] += Count; };
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
    Type *const Scalar = isa<StoreInst>(I) ? getLoadStoreType(&I) : I.getType();
    Refused |= !Scalar->isVoidTy() && !VectorType::isValidElementType(Scalar);
    if (const auto *Call = dyn_cast<IntrinsicInst>(&I); Call && !isHint(I))
      Refused |= !isTriviallyVectorizable(Call->getIntrinsicID());
  }
  for (const Access &Next : Accesses) {
    if (!Needs.test(Next.Number))
      continue;
    Add(Next.Writes ? Stores : Loads);
    Add(Bytes, static_cast<float>(Next.Size));
    Row[Width] = std::max(Row[Width], static_cast<float>(8 * Next.Size));
    Add(!Next.Step                          ? Irregular
        : *Next.Step == 0                   ? Invariant
        : std::abs(*Next.Step) == Next.Size ? Consecutive
                                            : Strided);
    Refused |= Next.Writes && (!Next.Step || *Next.Step == 0);
  }
  const auto Register =
      Analysis.Target.getRegisterBitWidth(TargetTransformInfo::RGK_FixedWidthVector);
  auto Lanes = static_cast<int64_t>(Register.getFixedValue());
  Lanes = Row[Width] == 0 ? 1 : Lanes / static_cast<int64_t>(Row[Width]);
  for (const Pair &Accessed : Pairs)
    if (Needs.test(Accesses[Accessed.First].Number) &&
        Needs.test(Accesses[Accessed.Second].Number) && Accessed.Checks.empty() &&
        Accessed.Backward) {
      if (Accessed.Distance < 4)
        Add(Cycles);
      else
        Lanes = std::min(Lanes, Accessed.Distance);
    }
  Row[Blocks] = Refused || Row[Cycles] > 0 || Row[Recurrences] > 0 ? 1.0F : 0.0F;
  const unsigned Count = Analysis.Evolution.getSmallConstantTripCount(&L);
  Row[Trips] = Count ? std::log2(1.0F + static_cast<float>(Count)) : 0.0F;
  for (const unsigned At : Needs.set_bits())
    if (!Control.test(At) && !IsAddress.test(At))
      Add(ScalarCost, static_cast<float>(ScalarCosts[At]));
  Row[VectorCost] = Row[ScalarCost];
  if (Lanes > 1) {
    const auto Whole = static_cast<unsigned>(bit_floor(static_cast<uint64_t>(Lanes)));
    Row[VectorCost] = std::min(Row[VectorCost], vectorCost(Needs, Whole));
  }
  Row[Latency] = latency(Needs);
  return Row;
}

} // namespace mlbridge::loop_distribution
