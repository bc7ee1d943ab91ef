// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "graph.h"

#include "llvm/Analysis/ScalarEvolutionExpressions.h"
#include "llvm/Transforms/Utils/LoopUtils.h"

using namespace llvm;

namespace mlbridge::loop_distribution {

std::string LoopGraph::refusal(const Loop &L, const Analyses &Analysis) {
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
  if (isa<SCEVCouldNotCompute>(Analysis.Evolution.getBackedgeTakenCount(&L)))
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

LoopGraph::LoopGraph(Loop &L, const Analyses &Analysis, bool MayCheck) : L(L), Analysis(Analysis) {
  for (Instruction &I : *L.getHeader()) {
    Numbers[&I] = static_cast<unsigned>(Instructions.size());
    Instructions.push_back(&I);
  }
  LeavesLoop.resize(Instructions.size());
  IsReduction = IsRecurrence = IsInduction = IsAddress = LeavesLoop;
  for (const auto &[I, Number] : Numbers)
    for (const User *U : I->users())
      if (!L.contains(cast<Instruction>(U)))
        LeavesLoop.set(Number);
  if (const auto *Most =
          dyn_cast<SCEVConstant>(Analysis.Evolution.getConstantMaxBackedgeTakenCount(&L)))
    if (Most->getAPInt().isIntN(62))
      MostTrips = static_cast<int64_t>(Most->getAPInt().getZExtValue());
  Control = closure(L.getLoopLatch()->getTerminator());
  // A pointer of this iteration may be compared with one of another.
  BatchAAResults Aliases(Analysis.Aliases);
  Aliases.enableCrossIterationMode();
  describePhis();
  findAccesses();
  findCosts();
  findPairs(Aliases, MayCheck);
  findNodes();
}

BitVector LoopGraph::closure(const Instruction *Root) const {
  BitVector Reached(Instructions.size());
  SmallVector<const Instruction *, 16> Waiting{Root};
  Reached.set(Numbers.lookup(Root));
  while (!Waiting.empty())
    for (const Value *Operand : Waiting.pop_back_val()->operands())
      if (const auto *I = dyn_cast<Instruction>(Operand))
        if (const auto At = Numbers.find(I); At != Numbers.end() && !Reached.test(At->second)) {
          Reached.set(At->second);
          Waiting.push_back(I);
        }
  return Reached;
}

void LoopGraph::findAccesses() {
  ScalarEvolution &SE = Analysis.Evolution;
  const DataLayout &Layout = L.getHeader()->getDataLayout();
  for (const auto &[Number, I] : enumerate(Instructions)) {
    Value *const Pointer = getLoadStorePointerOperand(I);
    if (!Pointer)
      continue;
    Access &New = Accesses.emplace_back();
    New.Number = static_cast<unsigned>(Number);
    New.Writes = isa<StoreInst>(I);
    New.Location = MemoryLocation::getBeforeOrAfter(Pointer, I->getAAMetadata());
    const TypeSize Size = Layout.getTypeStoreSize(getLoadStoreType(I));
    const SCEV *const Address = SE.getSCEV(Pointer);
    const auto *Growing = dyn_cast<SCEVAddRecExpr>(Address);
    if (Size.isScalable() || Layout.getIndexTypeSizeInBits(Pointer->getType()) > 64) {
      // Nothing is known.
    } else if (SE.isLoopInvariant(Address, &L)) {
      New.Start = Address;
      New.Step = 0;
    } else if (Growing && Growing->getLoop() == &L && Growing->isAffine()) {
      const auto *Step = dyn_cast<SCEVConstant>(Growing->getStepRecurrence(SE));
      // Addresses that go around the end of memory would be near to any.
      constexpr int64_t Far = int64_t(1) << 30;
      const bool IsWholePointer = Layout.getIndexTypeSizeInBits(Pointer->getType()) == 64;
      if (Step && Step->getAPInt().isSignedIntN(31) && IsWholePointer &&
          (Growing->hasNoSelfWrap() || (MostTrips && *MostTrips < Far))) {
        New.Start = Growing->getStart();
        New.Step = Step->getAPInt().getSExtValue();
      }
    }
    New.Size = Size.isScalable() ? 0 : static_cast<int64_t>(Size.getFixedValue());
  }
}

static int64_t floorDivide(int64_t A, int64_t B) {
  return A / B - (A % B != 0 && (A < 0) != (B < 0));
}

/// Finds exactly which iterations of the two meet, if the addresses are linear with one step.
bool LoopGraph::compare(const Access &First, const Access &Second, Pair &Result) const {
  if (!First.Step || First.Step != Second.Step || First.Start->getType() != Second.Start->getType())
    return false;
  const auto *Between =
      dyn_cast<SCEVConstant>(Analysis.Evolution.getMinusSCEV(Second.Start, First.Start));
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
    const int64_t Stride = std::abs(*First.Step);
    Least = -floorDivide(-Low, Stride);
    Most = floorDivide(High, Stride);
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
  Result.Forward = Least <= Most && Least <= 0;
  Result.Backward = Least <= Most && Most > 0;
  Result.Distance = Result.Backward ? std::max<int64_t>(Least, 1) : 0;
  return true;
}

void LoopGraph::findPairs(BatchAAResults &Aliases, bool MayCheck) {
  const LoopAccessInfo *Info =
      MayCheck ? &Analysis.Accesses.getInfo(L, /*AllowPartial=*/true) : nullptr;
  const RuntimePointerChecking *Checking = Info ? Info->getRuntimePointerChecking() : nullptr;
  if (Checking && (Info->hasConvergentOp() || Checking->getChecks().size() > MaxChecks))
    Checking = nullptr;
  // A pointer may be in several groups; two are compared only if all of theirs are.
  DenseMap<const Value *, SmallVector<const RuntimeCheckingPtrGroup *, 2>> Groups;
  if (Checking) {
    Checks.assign(Checking->getChecks().begin(), Checking->getChecks().end());
    for (const RuntimeCheckingPtrGroup &Group : Checking->CheckingGroups)
      for (const unsigned Member : Group.Members)
        Groups[Checking->getPointerInfo(Member).PointerValue].push_back(&Group);
  }
  const auto ChecksOf = [&](const Access &A, const Access &B) {
    SmallVector<unsigned, 1> Needed;
    for (const auto *GroupA : Groups.lookup(A.Location.Ptr))
      for (const auto *GroupB : Groups.lookup(B.Location.Ptr)) {
        const auto *Check = find_if(Checks, [&](const RuntimePointerCheck &One) {
          return One == std::pair(GroupA, GroupB) || One == std::pair(GroupB, GroupA);
        });
        if (Check == Checks.end())
          return SmallVector<unsigned, 1>();
        Needed.push_back(static_cast<unsigned>(Check - Checks.begin()));
      }
    return Needed;
  };
  for (unsigned I = 0; I < Accesses.size(); ++I)
    for (unsigned J = I + 1; J < Accesses.size(); ++J) {
      const Access &A = Accesses[I], &B = Accesses[J];
      if ((!A.Writes && !B.Writes) || Aliases.isNoAlias(A.Location, B.Location))
        continue;
      Pair New;
      New.First = I;
      New.Second = J;
      if (!compare(A, B, New))
        New.Checks = ChecksOf(A, B);
      if (New.Forward || New.Backward)
        Pairs.push_back(std::move(New));
    }
}

template <typename Visitor>
bool LoopGraph::forEachOrder(const Pair &Accessed, const Visitor &Visit) const {
  const unsigned First = Accesses[Accessed.First].Number;
  const unsigned Second = Accesses[Accessed.Second].Number;
  return (!Accessed.Forward || Visit(First, Second)) &&
         (!Accessed.Backward || Visit(Second, First));
}

void LoopGraph::findNodes() {
  std::vector<Node> Single;
  for (const auto &[Number, I] : enumerate(Instructions))
    if (isa<StoreInst>(I) || (LeavesLoop.test(Number) && !Control.test(Number))) {
      Node &New = Single.emplace_back();
      New.Roots.push_back(static_cast<unsigned>(Number));
      New.Needs = closure(I);
      New.Needs |= Control;
    }
  const size_t Count = Single.size();
  // Reaches[I]: the nodes that must not come before I.
  std::vector<BitVector> Reaches(Count, BitVector(Count));
  for (const Pair &Accessed : Pairs)
    if (Accessed.Checks.empty())
      forEachOrder(Accessed, [&](unsigned First, unsigned Second) {
        for (size_t I = 0; I < Count; ++I)
          for (size_t J = 0; J < Count; ++J)
            if (I != J && Single[I].Needs.test(First) && Single[J].Needs.test(Second))
              Reaches[I].set(J);
        return true;
      });
  const std::vector<BitVector> Direct = Reaches;
  for (size_t Via = 0; Via < Count; ++Via)
    for (BitVector &After : Reaches)
      if (After.test(Via))
        After |= Reaches[Via];
  std::vector<size_t> NodeOf(Count);
  for (size_t I = 0; I < Count; ++I) {
    NodeOf[I] = Nodes.size();
    for (size_t J = 0; J < I; ++J)
      if (Reaches[I].test(J) && Reaches[J].test(I)) {
        NodeOf[I] = NodeOf[J];
        Node &Cycle = Nodes[NodeOf[J]];
        Cycle.Roots.append(Single[I].Roots);
        Cycle.Needs |= Single[I].Needs;
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
  for (Node &Each : Nodes)
    Each.Description = describe(Each.Needs);
}

BitVector LoopGraph::needs(const BitVector &Nodes) const {
  BitVector All = Control;
  for (const unsigned Number : Nodes.set_bits())
    All |= this->Nodes[Number].Needs;
  return All;
}

bool LoopGraph::isLegal(ArrayRef<BitVector> Loops) const {
  std::vector<unsigned> First(Instructions.size(), ~0U), Last(Instructions.size(), 0),
      Roots(Instructions.size(), 0);
  for (unsigned Index = 0; Index < Loops.size(); ++Index) {
    const BitVector All = needs(Loops[Index]);
    for (const unsigned Number : All.set_bits()) {
      First[Number] = std::min(First[Number], Index);
      Last[Number] = Index;
      Roots[Number] += isa<StoreInst>(Instructions[Number]);
    }
  }
  for (const auto &[Number, I] : enumerate(Instructions))
    if ((isa<StoreInst>(I) && Roots[Number] != 1) ||
        (LeavesLoop.test(Number) && First[Number] == ~0U))
      return false;
  return all_of(Pairs, [&](const Pair &Accessed) {
    return !Accessed.Checks.empty() || forEachOrder(Accessed, [&](unsigned Before, unsigned After) {
      return First[Before] == ~0U || Last[Before] <= First[After];
    });
  });
}

SmallVector<RuntimePointerCheck, 4> LoopGraph::checks(ArrayRef<BitVector> Loops) const {
  BitVector Needed(Checks.size());
  for (const Pair &Accessed : Pairs) {
    BitVector Firsts(Loops.size()), Seconds(Loops.size());
    for (const auto &[Index, Nodes] : enumerate(Loops)) {
      const BitVector All = needs(Nodes);
      Firsts[Index] = All.test(Accesses[Accessed.First].Number);
      Seconds[Index] = All.test(Accesses[Accessed.Second].Number);
    }
    if (Firsts != Seconds || Firsts.count() > 1)
      for (const unsigned Check : Accessed.Checks)
        Needed.set(Check);
  }
  SmallVector<RuntimePointerCheck, 4> Compared;
  for (const unsigned Check : Needed.set_bits())
    Compared.push_back(Checks[Check]);
  return Compared;
}

} // namespace mlbridge::loop_distribution
