// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "graph.h"

#include "llvm/Analysis/ScalarEvolutionExpressions.h"
#include "llvm/Transforms/Utils/LoopUtils.h"

using namespace llvm;

namespace mlbridge::distribution {

std::string LoopGraph::refusal(const Loop &L, const Analyses &Its) {
  if (!L.isInnermost())
    return "it has loops inside";
  if (L.getNumBlocks() != 1)
    return "it has several blocks";
  if (!L.isLoopSimplifyForm() || !L.isRotatedForm())
    return "it is not in simplified and rotated form";
  if (!L.getExitBlock() || !L.isSafeToClone())
    return "it can't be cloned";
  if (hasDisableAllTransformsHint(&L) ||
      getOptionalBoolLoopAttribute(&L, "llvm.loop.distribute.enable") == false ||
      getBooleanLoopAttribute(&L, "llvm.loop.isvectorized"))
    return "its source or an earlier pass says so";
  if (!isa<BranchInst>(L.getLoopLatch()->getTerminator()))
    return "it does not end with a branch";
  if (isa<SCEVCouldNotCompute>(Its.Evolution.getBackedgeTakenCount(&L)))
    return "its trips can't be counted";
  size_t All = 0, Accesses = 0;
  for (const Instruction &I : *L.getHeader()) {
    ++All;
    if (isa<LoadInst, StoreInst>(I)) {
      ++Accesses;
      const bool Simple = isa<LoadInst>(I) ? cast<LoadInst>(I).isSimple() //
                                           : cast<StoreInst>(I).isSimple();
      if (!Simple)
        return "it has a volatile or atomic access";
    } else if (const auto *Call = dyn_cast<CallBase>(&I)) {
      if (isHint(I))
        continue;
      if (!isa<IntrinsicInst>(I) || !Call->doesNotAccessMemory() || !Call->doesNotThrow() ||
          !Call->willReturn() || Call->isConvergent() || Call->hasOperandBundles())
        return "it has a call";
      // Each copy could give another value.
    } else if (isa<FreezeInst, AllocaInst>(I) || I.getType()->isTokenTy() ||
               (!I.isTerminator() && (I.mayHaveSideEffects() || I.mayReadFromMemory()))) {
      return ("it has an instruction that can't be copied: " + Twine(I.getOpcodeName())).str();
    }
  }
  if (All > MaxInstructions || Accesses > MaxAccesses)
    return ("it has more than " + Twine(MaxInstructions) + " instructions or " +
            Twine(MaxAccesses) + " accesses")
        .str();
  return "";
}

LoopGraph::LoopGraph(Loop &L, const Analyses &Its, bool MayCheck) : L(L), Its(Its) {
  for (Instruction &I : *L.getHeader()) {
    Numbers[&I] = static_cast<unsigned>(Instructions.size());
    Instructions.push_back(&I);
  }
  LeavesLoop.resize(Instructions.size());
  IsReduction = IsRecurrence = IsInduction = IsAddress = LeavesLoop;
  for (const auto &[I, At] : Numbers)
    for (const User *Its : I->users())
      if (!L.contains(cast<Instruction>(Its)))
        LeavesLoop.set(At);
  if (const auto *Most = dyn_cast<SCEVConstant>(Its.Evolution.getConstantMaxBackedgeTakenCount(&L)))
    if (Most->getAPInt().isIntN(62))
      MostTrips = static_cast<int64_t>(Most->getAPInt().getZExtValue());
  Control = closure(L.getLoopLatch()->getTerminator());
  // A pointer of this iteration may be compared with one of another.
  BatchAAResults Aliases(Its.Aliases);
  Aliases.enableCrossIterationMode();
  describePhis();
  findAccesses();
  findCosts();
  findPairs(Aliases, MayCheck);
  findNodes();
}

BitVector LoopGraph::closure(const Instruction *Of) const {
  BitVector Found(Instructions.size());
  SmallVector<const Instruction *, 16> Waiting{Of};
  Found.set(Numbers.lookup(Of));
  while (!Waiting.empty())
    for (const Value *Operand : Waiting.pop_back_val()->operands())
      if (const auto *I = dyn_cast<Instruction>(Operand))
        if (const auto At = Numbers.find(I); At != Numbers.end() && !Found.test(At->second)) {
          Found.set(At->second);
          Waiting.push_back(I);
        }
  return Found;
}

void LoopGraph::findAccesses() {
  ScalarEvolution &SE = Its.Evolution;
  const DataLayout &Layout = L.getHeader()->getDataLayout();
  for (const auto &[At, I] : enumerate(Instructions)) {
    Value *const Pointer = getLoadStorePointerOperand(I);
    if (!Pointer)
      continue;
    Access Made;
    Made.At = static_cast<unsigned>(At);
    Made.Writes = isa<StoreInst>(I);
    Made.Where = MemoryLocation::getBeforeOrAfter(Pointer, I->getAAMetadata());
    const TypeSize Size = Layout.getTypeStoreSize(getLoadStoreType(I));
    const SCEV *const Address = SE.getSCEV(Pointer);
    const auto *Growing = dyn_cast<SCEVAddRecExpr>(Address);
    if (Size.isScalable() || Layout.getIndexTypeSizeInBits(Pointer->getType()) > 64) {
      // Nothing is known.
    } else if (SE.isLoopInvariant(Address, &L)) {
      Made.Start = Address;
      Made.Step = 0;
    } else if (Growing && Growing->getLoop() == &L && Growing->isAffine()) {
      const auto *By = dyn_cast<SCEVConstant>(Growing->getStepRecurrence(SE));
      // Addresses that go around the end of memory would be near to any.
      constexpr int64_t Far = int64_t(1) << 30;
      const bool Whole = Layout.getIndexTypeSizeInBits(Pointer->getType()) == 64;
      if (By && By->getAPInt().isSignedIntN(31) && Whole &&
          (Growing->hasNoSelfWrap() || (MostTrips && *MostTrips < Far))) {
        Made.Start = Growing->getStart();
        Made.Step = By->getAPInt().getSExtValue();
      }
    }
    Made.Size = Size.isScalable() ? 0 : static_cast<int64_t>(Size.getFixedValue());
    Accesses.push_back(Made);
  }
}

static int64_t floorDivide(int64_t A, int64_t B) {
  return A / B - (A % B != 0 && (A < 0) != (B < 0));
}

/// Finds exactly which iterations of the two meet, if the addresses are linear with one step.
bool LoopGraph::compare(const Access &First, const Access &Second, Pair &Into) const {
  if (!First.Step || First.Step != Second.Step || First.Start->getType() != Second.Start->getType())
    return false;
  const auto *Between =
      dyn_cast<SCEVConstant>(Its.Evolution.getMinusSCEV(Second.Start, First.Start));
  if (!Between || !Between->getAPInt().isSignedIntN(62) || First.Size > 1 << 30 ||
      Second.Size > 1 << 30)
    return false;
  // The first at iteration i and the second at j overlap if Low <= Step * (i - j) <= High.
  const int64_t Offset = Between->getAPInt().getSExtValue();
  const int64_t Low = Offset - First.Size + 1, High = Offset + Second.Size - 1;
  int64_t Least = std::numeric_limits<int64_t>::min() / 2, Most = -Least;
  if (*First.Step == 0) {
    if (Low > 0 || High < 0)
      Most = Least - 1;
  } else {
    const int64_t By = std::abs(*First.Step);
    Least = -floorDivide(-Low, By);
    Most = floorDivide(High, By);
    if (*First.Step < 0) {
      std::swap(Least, Most);
      Least = -Least;
      Most = -Most;
    }
  }
  if (MostTrips) {
    Least = std::max(Least, -*MostTrips);
    Most = std::min(Most, *MostTrips);
  }
  Into.Forward = Least <= Most && Least <= 0;
  Into.Backward = Least <= Most && Most > 0;
  Into.Distance = Into.Backward ? std::max<int64_t>(Least, 1) : 0;
  return true;
}

void LoopGraph::findPairs(BatchAAResults &Aliases, bool MayCheck) {
  const LoopAccessInfo *Info = MayCheck ? &Its.Accesses.getInfo(L, /*AllowPartial=*/true) : nullptr;
  const RuntimePointerChecking *Run = Info ? Info->getRuntimePointerChecking() : nullptr;
  if (Run && (Info->hasConvergentOp() || Run->getChecks().size() > MaxChecks))
    Run = nullptr;
  // A pointer may be in several groups; two are compared only if all of theirs are.
  DenseMap<const Value *, SmallVector<const RuntimeCheckingPtrGroup *, 2>> Groups;
  if (Run) {
    Checks.assign(Run->getChecks().begin(), Run->getChecks().end());
    for (const RuntimeCheckingPtrGroup &Group : Run->CheckingGroups)
      for (const unsigned Member : Group.Members)
        Groups[Run->getPointerInfo(Member).PointerValue].push_back(&Group);
  }
  const auto ChecksOf = [&](const Access &A, const Access &B) {
    SmallVector<unsigned, 1> Found;
    for (const auto *Of : Groups.lookup(A.Where.Ptr))
      for (const auto *Other : Groups.lookup(B.Where.Ptr)) {
        const auto *At = find_if(Checks, [&](const RuntimePointerCheck &Its) {
          return (Its.first == Of && Its.second == Other) ||
                 (Its.first == Other && Its.second == Of);
        });
        if (At == Checks.end())
          return SmallVector<unsigned, 1>();
        Found.push_back(static_cast<unsigned>(At - Checks.begin()));
      }
    return Found;
  };
  for (unsigned I = 0; I < Accesses.size(); ++I)
    for (unsigned J = I + 1; J < Accesses.size(); ++J) {
      const Access &A = Accesses[I], &B = Accesses[J];
      if ((!A.Writes && !B.Writes) || Aliases.isNoAlias(A.Where, B.Where))
        continue;
      Pair Made;
      Made.First = I;
      Made.Second = J;
      if (!compare(A, B, Made))
        Made.By = ChecksOf(A, B);
      if (Made.Forward || Made.Backward)
        Pairs.push_back(std::move(Made));
    }
}

template <typename Ordered>
bool LoopGraph::forEachOrder(const Pair &Of, const Ordered &Visit) const {
  const unsigned First = Accesses[Of.First].At, Second = Accesses[Of.Second].At;
  return (!Of.Forward || Visit(First, Second)) && (!Of.Backward || Visit(Second, First));
}

void LoopGraph::findNodes() {
  std::vector<Node> Single;
  for (const auto &[At, I] : enumerate(Instructions))
    if (isa<StoreInst>(I) || (LeavesLoop.test(At) && !Control.test(At))) {
      Node &Made = Single.emplace_back();
      Made.Roots.push_back(static_cast<unsigned>(At));
      Made.Needs = closure(I);
      Made.Needs |= Control;
    }
  const size_t Count = Single.size();
  // Reaches[I]: what must not come before I.
  std::vector<BitVector> Reaches(Count, BitVector(Count));
  for (const Pair &Its : Pairs)
    if (Its.By.empty())
      forEachOrder(Its, [&](unsigned First, unsigned Second) {
        for (size_t I = 0; I < Count; ++I)
          for (size_t J = 0; J < Count; ++J)
            if (I != J && Single[I].Needs.test(First) && Single[J].Needs.test(Second))
              Reaches[I].set(J);
        return true;
      });
  const std::vector<BitVector> Direct = Reaches;
  for (size_t Via = 0; Via < Count; ++Via)
    for (BitVector &Its : Reaches)
      if (Its.test(Via))
        Its |= Reaches[Via];
  std::vector<size_t> NodeOf(Count);
  for (size_t I = 0; I < Count; ++I) {
    NodeOf[I] = Nodes.size();
    for (size_t J = 0; J < I; ++J)
      if (Reaches[I].test(J) && Reaches[J].test(I)) {
        NodeOf[I] = NodeOf[J];
        Node &Its = Nodes[NodeOf[J]];
        Its.Roots.append(Single[I].Roots);
        Its.Needs |= Single[I].Needs;
        break;
      }
    if (NodeOf[I] == Nodes.size())
      Nodes.push_back(Single[I]);
  }
  std::vector<BitVector> Known(Nodes.size(), BitVector(Nodes.size()));
  for (size_t I = 0; I < Count; ++I)
    for (const unsigned J : Direct[I].set_bits())
      if (const size_t From = NodeOf[I], To = NodeOf[J]; From != To && !Known[From].test(To)) {
        Known[From].set(To);
        Edges.emplace_back(From, To);
      }
  for (Node &Its : Nodes)
    Its.Description = describe(Its.Needs);
}

BitVector LoopGraph::needs(const BitVector &Of) const {
  BitVector All = Control;
  for (const unsigned Which : Of.set_bits())
    All |= Nodes[Which].Needs;
  return All;
}

bool LoopGraph::isLegal(ArrayRef<BitVector> Loops) const {
  std::vector<unsigned> First(Instructions.size(), ~0U), Last(Instructions.size(), 0),
      Roots(Instructions.size(), 0);
  for (const auto &[Number, Of] : enumerate(Loops)) {
    const BitVector All = needs(Of);
    for (const unsigned At : All.set_bits()) {
      First[At] = std::min(First[At], static_cast<unsigned>(Number));
      Last[At] = static_cast<unsigned>(Number);
      Roots[At] += isa<StoreInst>(Instructions[At]);
    }
  }
  for (const auto &[At, I] : enumerate(Instructions))
    if ((isa<StoreInst>(I) && Roots[At] != 1) || (LeavesLoop.test(At) && First[At] == ~0U))
      return false;
  return all_of(Pairs, [&](const Pair &Its) {
    return !Its.By.empty() || forEachOrder(Its, [&](unsigned Before, unsigned After) {
      return First[Before] == ~0U || Last[Before] <= First[After];
    });
  });
}

SmallVector<RuntimePointerCheck, 4> LoopGraph::checks(ArrayRef<BitVector> Loops) const {
  BitVector Needed(Checks.size());
  for (const Pair &Its : Pairs) {
    BitVector Firsts(Loops.size()), Seconds(Loops.size());
    for (const auto &[Number, Of] : enumerate(Loops)) {
      const BitVector All = needs(Of);
      Firsts[Number] = All.test(Accesses[Its.First].At);
      Seconds[Number] = All.test(Accesses[Its.Second].At);
    }
    if (Firsts != Seconds || Firsts.count() > 1)
      for (const unsigned By : Its.By)
        Needed.set(By);
  }
  SmallVector<RuntimePointerCheck, 4> Found;
  for (const unsigned Which : Needed.set_bits())
    Found.push_back(Checks[Which]);
  return Found;
}

} // namespace mlbridge::distribution
