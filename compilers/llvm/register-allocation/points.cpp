// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Where a live range can be split.
#include "allocation.h"

#include "llvm/ADT/SmallSet.h"
#include "llvm/CodeGen/MachineFunction.h"

#include <algorithm>
#include <limits>

using namespace llvm;

namespace mlbridge::allocation {

/// Parts of parts of parts are no further split: each split leaves a copy.
static constexpr unsigned MaxDepth = 24;
/// Loops from which the search for a region begins.
static constexpr unsigned MaxLoops = 8;

namespace {

/// A live range in one block.
struct Presence {
  MachineBasicBlock *Block = nullptr;
  float Frequency = 0;
  unsigned Bundles[2] = {}; ///< of the edges into it and out of it
  bool Lives[2] = {};       ///< there
  SmallVector<std::pair<SlotIndex, SlotIndex>, 2> Segments;
  /// What uses or defines it, in order.
  SmallVector<std::pair<SlotIndex, MachineInstr *>, 4> Uses;
  SmallVector<bool, 4> Defines; ///< for each of these
};

/// Where a register isn't taken.
struct Room {
  bool Whole = true;            ///< wherever the live range is in the block
  bool Edges[2] = {true, true}; ///< where it comes in, and where it goes out

  bool operator==(const Room &Other) const {
    return Whole == Other.Whole && Edges[0] == Other.Edges[0] && Edges[1] == Other.Edges[1];
  }
};

/// What a block costs if the edges are in the part or not.
struct Cost {
  float Copies = 0, Rest = 0;
  bool Uses = false; ///< are in the part

  float sum() const { return Copies + Rest; }
};

class Finder {
public:
  Finder(const LiveInterval &Of, MachineFunction &MF, const Analyses &Its)
      : Of(Of), MF(MF), Its(Its) {}

  /// Whether it can be split at all.
  bool begin();
  /// Parts that fit into this register.
  void find(MCRegister In, const TargetRegisterInfo &Target, std::vector<Point> &Found);

private:
  bool isTaken(SlotIndex From, SlotIndex To) const;
  Cost cost(size_t Block, bool In, bool Out) const;
  void region(std::vector<Point> &Found, const DenseMap<unsigned, bool> &Start);
  void windows(const Presence &Here, std::vector<Point> &Found);

  const LiveInterval &Of;
  MachineFunction &MF;
  const Analyses &Its;
  std::vector<Presence> Blocks;
  DenseMap<unsigned, SmallVector<size_t, 4>> Bundles; ///< to blocks
  std::vector<Room> Rooms;                            ///< of the register, for each block
  std::vector<std::vector<Room>> Seen;
  /// What has the register.
  SmallVector<const LiveRange *, 16> Holders;
  MCRegister Register;
};

bool Finder::begin() {
  DenseMap<const MachineBasicBlock *, size_t> At;
  for (const LiveRange::Segment &Next : Of.segments) {
    SlotIndex From = Next.start;
    do {
      MachineBasicBlock *const Block = Its.Intervals.getMBBFromIndex(From);
      const SlotIndex Begin = Its.Intervals.getMBBStartIdx(Block);
      const SlotIndex End = Its.Intervals.getMBBEndIdx(Block);
      const auto [Found, IsNew] = At.try_emplace(Block, Blocks.size());
      if (IsNew) {
        Blocks.emplace_back();
        Presence &Here = Blocks.back();
        Here.Block = Block;
        Here.Frequency =
            static_cast<float>(Its.Frequencies.getBlockFreqRelativeToEntryBlock(Block));
        for (const bool Out : {false, true})
          Here.Bundles[Out] = Its.Bundles.getBundle(static_cast<unsigned>(Block->getNumber()), Out);
      }
      Presence &Here = Blocks[Found->second];
      Here.Lives[0] |= From == Begin;
      Here.Lives[1] |= Next.end >= End;
      const SlotIndex To = std::min(End, Next.end);
      Here.Segments.emplace_back(From, To);
      From = To;
    } while (From < Next.end);
  }
  for (MachineInstr &Use : MF.getRegInfo().reg_nodbg_instructions(Of.reg())) {
    const auto Found = At.find(Use.getParent());
    if (Use.isBundled() || (Use.isTerminator() && Use.modifiesRegister(Of.reg(), nullptr)))
      return false;
    if (Found != At.end()) // elsewhere it is undefined
      Blocks[Found->second].Uses.emplace_back(Its.Intervals.getInstructionIndex(Use), &Use);
  }
  for (size_t I = 0; I < Blocks.size(); ++I) {
    sort(Blocks[I].Uses);
    for (const auto &Next : Blocks[I].Uses)
      Blocks[I].Defines.push_back(Next.second->modifiesRegister(Of.reg(), nullptr));
    for (const bool Out : {false, true})
      if (Blocks[I].Lives[Out])
        Bundles[Blocks[I].Bundles[Out]].push_back(I);
  }
  return true;
}

bool Finder::isTaken(SlotIndex From, SlotIndex To) const {
  if (any_of(Holders, [&](const LiveRange *Holder) { return Holder->overlaps(From, To); }))
    return true;
  const auto Number = static_cast<unsigned>(Its.Intervals.getMBBFromIndex(From)->getNumber());
  const ArrayRef<SlotIndex> Slots = Its.Intervals.getRegMaskSlotsInBlock(Number);
  const ArrayRef<const uint32_t *> Bits = Its.Intervals.getRegMaskBitsInBlock(Number);
  for (size_t I = 0; I < Slots.size(); ++I)
    if (From <= Slots[I] && Slots[I] < To && MachineOperand::clobbersPhysReg(Bits[I], Register))
      return true;
  return false;
}

Cost Finder::cost(size_t Block, bool In, bool Out) const {
  const Presence &Here = Blocks[Block];
  const Room &Free = Rooms[Block];
  const bool Labels[2] = {In, Out};
  Cost Its;
  for (const bool Edge : {false, true})
    if (Here.Lives[Edge] && Labels[Edge] && !Free.Edges[Edge])
      return {std::numeric_limits<float>::infinity(), 0, false};
  if (Here.Uses.empty()) {
    Its.Copies = In != Out ? 1 : In && !Free.Whole ? 2 : 0;
  } else {
    const float Without = (Here.Lives[0] && In) + (Here.Lives[1] && Out);
    const float With = (Here.Lives[0] && !In) + (Here.Lives[1] && !Out);
    const auto Count = static_cast<float>(Here.Uses.size());
    Its.Uses = Free.Whole && With < Without + Count;
    Its.Copies = Its.Uses ? With : Without;
    Its.Rest = Its.Uses ? 0 : Count;
  }
  Its.Copies *= Here.Frequency;
  Its.Rest *= Here.Frequency;
  return Its;
}

void Finder::region(std::vector<Point> &Found, const DenseMap<unsigned, bool> &Start) {
  DenseMap<unsigned, bool> In = Start;
  const auto Of = [&](size_t Block, unsigned Bundle, bool Value) {
    const Presence &Here = Blocks[Block];
    const auto Label = [&](bool Edge) {
      return Here.Lives[Edge] &&
             (Here.Bundles[Edge] == Bundle ? Value : In.lookup(Here.Bundles[Edge]));
    };
    return cost(Block, Label(false), Label(true)).sum();
  };
  bool Changed = true;
  for (unsigned Round = 0; Changed && Round < 10; ++Round) {
    Changed = false;
    for (const auto &[Bundle, Those] : Bundles) {
      float Costs[2] = {0, 0};
      for (const bool Value : {false, true})
        for (const size_t Block : Those)
          Costs[Value] += Of(Block, Bundle, Value);
      const bool Better = Costs[1] < Costs[0];
      if (Better != In.lookup(Bundle)) {
        In[Bundle] = Better;
        Changed = true;
      }
    }
  }
  Point One;
  bool Defines = false;
  size_t Left = 0;
  std::vector<bool> Uses(Blocks.size());
  for (size_t I = 0; I < Blocks.size(); ++I) {
    const Presence &Here = Blocks[I];
    Uses[I] = cost(I, Here.Lives[0] && In.lookup(Here.Bundles[0]),
                   Here.Lives[1] && In.lookup(Here.Bundles[1]))
                  .Uses;
    if (!Uses[I]) {
      Left += Here.Uses.size();
      continue;
    }
    One.Weight += Here.Frequency * static_cast<float>(Here.Uses.size());
    Defines |= is_contained(Here.Defines, true);
    for (const auto &Use : Here.Uses)
      One.Uses.push_back(Use.second);
  }
  if (One.Uses.empty())
    return;
  const auto Copy = [&](const Presence &Here, MachineBasicBlock::iterator Before, bool Into) {
    // What the part doesn't change, the rest still has.
    if (!Into && !Defines)
      return;
    One.Copies.push_back({Here.Block, Before, Into});
    One.Frequency += Here.Frequency;
  };
  for (size_t I = 0; I < Blocks.size(); ++I) {
    const Presence &Here = Blocks[I];
    const auto Begin = Here.Block->SkipPHIsLabelsAndDebug(Here.Block->begin());
    const auto End = Here.Block->getFirstTerminator();
    const bool Enters = Here.Lives[0] && In.lookup(Here.Bundles[0]);
    const bool Leaves = Here.Lives[1] && In.lookup(Here.Bundles[1]);
    if (Here.Uses.empty()) {
      if (Enters != Leaves) {
        Copy(Here, Begin, Leaves);
      } else if (Enters && !Rooms[I].Whole) {
        Copy(Here, Begin, false);
        Copy(Here, End, true);
      }
      continue;
    }
    if (Here.Lives[0] && Enters != Uses[I])
      Copy(Here, Uses[I] ? Here.Uses.front().second->getIterator() : Begin, Uses[I]);
    if (Here.Lives[1] && Leaves != Uses[I])
      Copy(Here, End, Leaves);
  }
  if (One.Weight > One.Frequency && (Left || !One.Copies.empty()))
    Found.push_back(std::move(One));
}

void Finder::windows(const Presence &Here, std::vector<Point> &Found) {
  const size_t Count = Here.Uses.size();
  for (size_t First = 0; First < Count; ++First) {
    size_t Last = First;
    // From before the first use to after the last one.
    const auto Free = [&](size_t To) {
      const SlotIndex From =
          Here.Defines[First] && !Here.Uses[First].second->readsVirtualRegister(Of.reg())
              ? Here.Uses[First].first.getRegSlot()
              : Here.Uses[First].first.getBaseIndex();
      return !isTaken(From, Here.Uses[To].first.getRegSlot());
    };
    while (Last + 1 < Count && !Here.Uses[Last + 1].second->isTerminator() && Free(Last + 1))
      ++Last;
    if (Last == First || Here.Uses[First].second->isTerminator())
      continue;
    Point One;
    bool Defines = false;
    for (size_t I = First; I <= Last; ++I) {
      One.Uses.push_back(Here.Uses[I].second);
      Defines |= Here.Defines[I];
    }
    if (Here.Uses[First].second->readsVirtualRegister(Of.reg()))
      One.Copies.push_back({Here.Block, Here.Uses[First].second->getIterator(), true});
    const SlotIndex After = Here.Uses[Last].first.getDeadSlot();
    if (Defines && Of.liveAt(After))
      One.Copies.push_back({Here.Block, std::next(Here.Uses[Last].second->getIterator()), false});
    One.Weight = Here.Frequency * static_cast<float>(One.Uses.size());
    One.Frequency = Here.Frequency * static_cast<float>(One.Copies.size());
    if (One.Weight > One.Frequency && !One.Copies.empty())
      Found.push_back(std::move(One));
    First = Last;
  }
}

void Finder::find(MCRegister In, const TargetRegisterInfo &Target, std::vector<Point> &Found) {
  Register = In;
  Holders.clear();
  for (const MCRegUnit Unit : Target.regunits(In)) {
    if (LiveRange &Fixed = Its.Intervals.getRegUnit(Unit); !Fixed.empty())
      Holders.push_back(&Fixed);
    for (const LiveInterval *Holder : Its.Matrix.query(Of, Unit).interferingVRegs())
      if (!is_contained(Holders, Holder))
        Holders.push_back(Holder);
  }
  Rooms.assign(Blocks.size(), {});
  bool Any = false;
  for (size_t I = 0; I < Blocks.size(); ++I) {
    const Presence &Here = Blocks[I];
    Rooms[I].Whole =
        none_of(Here.Segments, [&](const auto &Next) { return isTaken(Next.first, Next.second); });
    Any |= Rooms[I].Whole;
    if (Rooms[I].Whole)
      continue;
    const SlotIndex Begin = Its.Intervals.getMBBStartIdx(Here.Block);
    const SlotIndex End = Its.Intervals.getMBBEndIdx(Here.Block);
    Rooms[I].Edges[0] = !isTaken(Begin, Begin.getNextSlot());
    Rooms[I].Edges[1] = !isTaken(End.getPrevSlot(), End);
    windows(Here, Found);
  }
  if (!Any || is_contained(Seen, Rooms))
    return;
  Seen.push_back(Rooms);
  DenseMap<unsigned, bool> Start;
  region(Found, Start);
  for (const auto &[Bundle, Those] : Bundles)
    Start[Bundle] = true;
  region(Found, Start);
  SmallSet<const MachineLoop *, 8> Loops;
  for (const Presence &Here : Blocks) {
    const MachineLoop *const Loop = Its.Loops.getLoopFor(Here.Block);
    if (!Loop || Here.Uses.empty() || Loops.size() == MaxLoops || !Loops.insert(Loop).second)
      continue;
    Start.clear();
    for (const Presence &Part : Blocks)
      if (Loop->contains(Part.Block))
        Start[Part.Bundles[0]] = Start[Part.Bundles[1]] = true;
    region(Found, Start);
  }
}

} // namespace

std::vector<Point> Allocation::points(size_t Range) {
  std::vector<Point> All;
  const LiveInterval &Of = interval(Range);
  if (!Ranges[Range].Spillable || Ranges[Range].Depth >= MaxDepth || Of.hasSubRanges() ||
      Of.empty() || Ranges.size() > MaxRanges / 2)
    return All;
  Finder Find(Of, MF, Its);
  if (!Find.begin())
    return All;
  for (const MCPhysReg Next : Classes.getOrder(Registers.getRegClass(Of.reg())))
    Find.find(Next, Target, All);
  std::stable_sort(All.begin(), All.end(), [](const Point &A, const Point &B) {
    return A.Weight - A.Frequency > B.Weight - B.Frequency;
  });
  if (All.size() > MaxPoints)
    All.resize(MaxPoints);
  return All;
}

} // namespace mlbridge::allocation
