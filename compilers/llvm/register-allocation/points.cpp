// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The search for the points at which a live range can be split.
#include "allocation.h"

#include "llvm/ADT/SmallSet.h"
#include "llvm/CodeGen/MachineFunction.h"

#include <algorithm>
#include <array>
#include <limits>
#include <set>
#include <utility>

using namespace llvm;

namespace mlbridge::register_allocation {

/// Parts of parts of parts are no further split: each split leaves a copy.
static constexpr unsigned MaxDepth = 24;
/// Loops from which the search for a region begins.
static constexpr unsigned MaxLoops = 8;

namespace {

using Part = std::pair<SlotIndex, SlotIndex>;

/// A live range in one block.
struct Presence {
  MachineBasicBlock *Block = nullptr;
  float Frequency = 0;
  unsigned Bundles[2] = {}; ///< of the edges into it and out of it, as Finder numbers them
  bool Lives[2] = {};       ///< at the block's beginning and end
  /// The instructions that use or define it, in order.
  SmallVector<std::pair<SlotIndex, MachineInstr *>, 4> Uses;
  SmallVector<bool, 4> Defines; ///< for each of these
  /// The calls across which it lives, and the registers that they keep.
  SmallVector<std::pair<SlotIndex, const uint32_t *>, 2> Calls;
};

/// The places where a register is taken in a block.
struct Room {
  SmallVector<Part, 4> Taken; ///< parts of the live range
  bool Edges[2] = {};         ///< at the block's beginning and end

  bool isTaken(SlotIndex From, SlotIndex To) const {
    return any_of(Taken,
                  [&](const Part &Place) { return Place.first < To && From < Place.second; });
  }
};

/// The cost of a block if the edges are in the part or not.
struct Cost {
  float Sum = 0;
  bool HasUses = false; ///< the uses are in the part
};

class Finder {
public:
  Finder(const LiveInterval &Interval, MachineFunction &MF, const Analyses &Analysis)
      : Interval(Interval), MF(MF), Analysis(Analysis) {}

  /// False if the live range can't be split at all.
  bool begin();
  /// Finds the parts that fit into this register.
  void find(MCRegister Register, const TargetRegisterInfo &Target);
  std::vector<Point> takePoints() { return std::move(Points); }

private:
  /// A segment of the live range, cut at the ends of blocks.
  struct Piece {
    Part Slots;
    unsigned Block; ///< in Blocks
  };
  using Labels = std::vector<char>; ///< for each bundle: 1 if it is in the part

  unsigned numberOf(MachineBasicBlock *Block, bool Out);
  void take(MCRegister Register, const TargetRegisterInfo &Target);
  void take(const LiveRange &Holder);
  Cost cost(size_t Block, bool In, bool Out) const;
  void region(Labels In);
  void add(const Labels &In);
  void windows(size_t Block);

  const LiveInterval &Interval;
  MachineFunction &MF;
  const Analyses &Analysis;
  std::vector<Presence> Blocks;
  std::vector<Piece> Pieces;                   ///< in order
  DenseMap<unsigned, unsigned> Numbers;        ///< of bundles
  std::vector<SmallVector<size_t, 4>> Bundles; ///< their blocks
  std::vector<Labels> Starts;                  ///< from which regions grow
  std::vector<Room> Rooms;                     ///< of the register, for each block
  std::vector<std::array<Cost, 4>> Costs;      ///< of each block, by In + 2 * Out
  std::set<std::vector<char>> Seen;            ///< regions of all registers
  std::vector<Point> Points;
};

unsigned Finder::numberOf(MachineBasicBlock *Block, bool Out) {
  const unsigned Bundle =
      Analysis.Bundles.getBundle(static_cast<unsigned>(Block->getNumber()), Out);
  const auto [Entry, IsNew] = Numbers.try_emplace(Bundle, static_cast<unsigned>(Bundles.size()));
  if (IsNew)
    Bundles.emplace_back();
  return Entry->second;
}

bool Finder::begin() {
  DenseMap<const MachineBasicBlock *, unsigned> BlockNumbers;
  for (const LiveRange::Segment &Next : Interval.segments) {
    SlotIndex From = Next.start;
    do {
      MachineBasicBlock *const Block = Analysis.Intervals.getMBBFromIndex(From);
      const SlotIndex Begin = Analysis.Intervals.getMBBStartIdx(Block);
      const SlotIndex End = Analysis.Intervals.getMBBEndIdx(Block);
      const auto [Entry, IsNew] =
          BlockNumbers.try_emplace(Block, static_cast<unsigned>(Blocks.size()));
      if (IsNew) {
        Blocks.emplace_back();
        Presence &Here = Blocks.back();
        Here.Block = Block;
        Here.Frequency =
            static_cast<float>(Analysis.Frequencies.getBlockFreqRelativeToEntryBlock(Block));
        for (const bool Out : {false, true})
          Here.Bundles[Out] = numberOf(Block, Out);
      }
      Presence &Here = Blocks[Entry->second];
      Here.Lives[0] |= From == Begin;
      Here.Lives[1] |= Next.end >= End;
      const SlotIndex To = std::min(End, Next.end);
      Pieces.push_back({{From, To}, Entry->second});
      const auto Number = static_cast<unsigned>(Block->getNumber());
      const ArrayRef<SlotIndex> Slots = Analysis.Intervals.getRegMaskSlotsInBlock(Number);
      const ArrayRef<const uint32_t *> Kept = Analysis.Intervals.getRegMaskBitsInBlock(Number);
      for (size_t I = 0; I < Slots.size(); ++I)
        if (From <= Slots[I] && Slots[I] < To)
          Here.Calls.emplace_back(Slots[I], Kept[I]);
      From = To;
    } while (From < Next.end);
  }
  for (MachineInstr &Use : MF.getRegInfo().reg_nodbg_instructions(Interval.reg())) {
    const auto Entry = BlockNumbers.find(Use.getParent());
    if (Use.isBundled() || (Use.isTerminator() && Use.modifiesRegister(Interval.reg(), nullptr)))
      return false;
    if (Entry != BlockNumbers.end()) // elsewhere it is undefined
      Blocks[Entry->second].Uses.emplace_back(Analysis.Intervals.getInstructionIndex(Use), &Use);
  }
  SmallSet<const MachineLoop *, 8> Loops;
  Starts = {Labels(Bundles.size(), 0), Labels(Bundles.size(), 1)};
  for (size_t I = 0; I < Blocks.size(); ++I) {
    Presence &Here = Blocks[I];
    sort(Here.Uses);
    for (const auto &Next : Here.Uses)
      Here.Defines.push_back(Next.second->modifiesRegister(Interval.reg(), nullptr));
    for (const bool Out : {false, true})
      if (Here.Lives[Out])
        Bundles[Here.Bundles[Out]].push_back(I);
    const MachineLoop *const Loop = Analysis.Loops.getLoopFor(Here.Block);
    if (!Loop || Here.Uses.empty() || Loops.size() == MaxLoops || !Loops.insert(Loop).second)
      continue;
    Labels &Start = Starts.emplace_back(Bundles.size(), 0);
    for (const Presence &Part : Blocks)
      if (Loop->contains(Part.Block))
        Start[Part.Bundles[0]] = Start[Part.Bundles[1]] = 1;
  }
  return true;
}

void Finder::take(const LiveRange &Holder) {
  auto First = Pieces.begin();
  for (auto Next = Holder.find(Interval.beginIndex()); Next != Holder.end(); ++Next) {
    First = std::partition_point(First, Pieces.end(),
                                 [&](const Piece &One) { return One.Slots.second <= Next->start; });
    if (First == Pieces.end())
      return;
    for (auto Held = First; Held != Pieces.end() && Held->Slots.first < Next->end; ++Held)
      Rooms[Held->Block].Taken.emplace_back(std::max(Held->Slots.first, Next->start),
                                            std::min(Held->Slots.second, Next->end));
  }
}

void Finder::take(MCRegister Register, const TargetRegisterInfo &Target) {
  Rooms.assign(Blocks.size(), {});
  SmallPtrSet<const LiveRange *, 16> Holders;
  for (const MCRegUnit Unit : Target.regunits(Register)) {
    if (const LiveRange &Fixed = Analysis.Intervals.getRegUnit(Unit); !Fixed.empty())
      take(Fixed);
    for (const LiveInterval *Holder : Analysis.Matrix.query(Interval, Unit).interferingVRegs())
      if (Holders.insert(Holder).second)
        take(*Holder);
  }
  for (size_t I = 0; I < Blocks.size(); ++I) {
    for (const auto &[Call, Kept] : Blocks[I].Calls)
      if (MachineOperand::clobbersPhysReg(Kept, Register))
        Rooms[I].Taken.emplace_back(Call, Call.getNextSlot());
    if (Rooms[I].Taken.empty())
      continue;
    const SlotIndex Begin = Analysis.Intervals.getMBBStartIdx(Blocks[I].Block);
    const SlotIndex End = Analysis.Intervals.getMBBEndIdx(Blocks[I].Block);
    Rooms[I].Edges[0] = Rooms[I].isTaken(Begin, Begin.getNextSlot());
    Rooms[I].Edges[1] = Rooms[I].isTaken(End.getPrevSlot(), End);
  }
}

Cost Finder::cost(size_t Block, bool In, bool Out) const {
  const Presence &Here = Blocks[Block];
  const Room &Held = Rooms[Block];
  const bool Labels[2] = {In, Out};
  for (const bool Edge : {false, true})
    if (Here.Lives[Edge] && Labels[Edge] && Held.Edges[Edge])
      return {std::numeric_limits<float>::infinity(), false};
  const bool Whole = Held.Taken.empty();
  if (Here.Uses.empty())
    return {(In != Out ? 1 : In && !Whole ? 2 : 0) * Here.Frequency, false};
  const float Without = (Here.Lives[0] && In) + (Here.Lives[1] && Out);
  const float With = (Here.Lives[0] && !In) + (Here.Lives[1] && !Out);
  const auto Count = static_cast<float>(Here.Uses.size());
  const bool Uses = Whole && With < Without + Count;
  return {(Uses ? With : Without + Count) * Here.Frequency, Uses};
}

void Finder::region(Labels In) {
  const auto CostOf = [&](size_t Block, unsigned Bundle, bool Value) {
    const Presence &Here = Blocks[Block];
    size_t Edges = 0;
    for (const bool Edge : {false, true})
      if (Here.Lives[Edge] && (Here.Bundles[Edge] == Bundle ? Value : In[Here.Bundles[Edge]] != 0))
        Edges += Edge ? 2 : 1;
    return Costs[Block][Edges].Sum;
  };
  std::vector<char> Changed(Bundles.size(), 1); ///< or may do
  for (unsigned Round = 0; is_contained(Changed, 1) && Round < 10; ++Round)
    for (unsigned Bundle = 0; Bundle < Bundles.size(); ++Bundle) {
      if (!std::exchange(Changed[Bundle], 0))
        continue;
      float Sums[2] = {0, 0};
      for (const bool Value : {false, true})
        for (const size_t Block : Bundles[Bundle])
          Sums[Value] += CostOf(Block, Bundle, Value);
      const bool IsBetterIn = Sums[1] < Sums[0];
      if (IsBetterIn == (In[Bundle] != 0))
        continue;
      In[Bundle] = IsBetterIn;
      for (const size_t Block : Bundles[Bundle])
        for (const unsigned Other : Blocks[Block].Bundles)
          Changed[Other] |= Other != Bundle;
    }
  add(In);
}

void Finder::add(const Labels &In) {
  enum : char { Enters = 1, Leaves = 2, Uses = 4, Around = 8 };
  std::vector<char> Parts(Blocks.size());
  Point One;
  bool Defines = false;
  size_t Left = 0;
  for (size_t I = 0; I < Blocks.size(); ++I) {
    const Presence &Here = Blocks[I];
    const bool Edges[2] = {Here.Lives[0] && In[Here.Bundles[0]],
                           Here.Lives[1] && In[Here.Bundles[1]]};
    const bool Used = Costs[I][Edges[0] + 2 * Edges[1]].HasUses;
    const bool Goes = Here.Uses.empty() && Edges[0] && Edges[1] && !Rooms[I].Taken.empty();
    Parts[I] = static_cast<char>((Edges[0] ? Enters : 0) | (Edges[1] ? Leaves : 0) |
                                 (Used ? Uses : 0) | (Goes ? Around : 0));
    if (Used) {
      One.Weight += Here.Frequency * static_cast<float>(Here.Uses.size());
      Defines |= is_contained(Here.Defines, true);
    } else {
      Left += Here.Uses.size();
    }
  }
  if (One.Weight == 0 || !Seen.insert(Parts).second)
    return;
  enum Where { Begin, First, End };
  const auto Copy = [&](const Presence &Here, Where Before, bool Into) {
    // The rest still has a value that the part doesn't change.
    if (!Into && !Defines)
      return;
    One.Copies.push_back({Here.Block,
                          Before == Begin ? Here.Block->SkipPHIsLabelsAndDebug(Here.Block->begin())
                          : Before == First ? Here.Uses.front().second->getIterator()
                                            : Here.Block->getFirstTerminator(),
                          Into});
    One.Frequency += Here.Frequency;
  };
  for (size_t I = 0; I < Blocks.size() && One.Frequency < One.Weight; ++I) {
    const Presence &Here = Blocks[I];
    const bool In = Parts[I] & Enters, Out = Parts[I] & Leaves, Used = Parts[I] & Uses;
    for (const auto &Use : Here.Uses)
      if (Used)
        One.Uses.push_back(Use.second);
    if (Parts[I] & Around) {
      Copy(Here, Begin, false);
      Copy(Here, End, true);
    } else if (Here.Uses.empty()) {
      if (In != Out)
        Copy(Here, Begin, Out);
    } else {
      if (Here.Lives[0] && In != Used)
        Copy(Here, Used ? First : Begin, Used);
      if (Here.Lives[1] && Out != Used)
        Copy(Here, End, Out);
    }
  }
  if (One.Frequency < One.Weight && (Left || !One.Copies.empty()))
    Points.push_back(std::move(One));
}

void Finder::windows(size_t Block) {
  const Presence &Here = Blocks[Block];
  const size_t Count = Here.Uses.size();
  for (size_t First = 0; First < Count; ++First) {
    size_t Last = First;
    // A window reaches from before its first use to after its last one.
    const auto IsFree = [&](size_t To) {
      const SlotIndex From =
          Here.Defines[First] && !Here.Uses[First].second->readsVirtualRegister(Interval.reg())
              ? Here.Uses[First].first.getRegSlot()
              : Here.Uses[First].first.getBaseIndex();
      return !Rooms[Block].isTaken(From, Here.Uses[To].first.getRegSlot());
    };
    while (Last + 1 < Count && !Here.Uses[Last + 1].second->isTerminator() && IsFree(Last + 1))
      ++Last;
    if (Last == First || Here.Uses[First].second->isTerminator())
      continue;
    Point One;
    bool Defines = false;
    for (size_t I = First; I <= Last; ++I) {
      One.Uses.push_back(Here.Uses[I].second);
      Defines |= Here.Defines[I];
    }
    if (Here.Uses[First].second->readsVirtualRegister(Interval.reg()))
      One.Copies.push_back({Here.Block, Here.Uses[First].second->getIterator(), true});
    const SlotIndex After = Here.Uses[Last].first.getDeadSlot();
    if (Defines && Interval.liveAt(After))
      One.Copies.push_back({Here.Block, std::next(Here.Uses[Last].second->getIterator()), false});
    One.Weight = Here.Frequency * static_cast<float>(One.Uses.size());
    One.Frequency = Here.Frequency * static_cast<float>(One.Copies.size());
    if (One.Weight > One.Frequency && !One.Copies.empty())
      Points.push_back(std::move(One));
    First = Last;
  }
}

void Finder::find(MCRegister Register, const TargetRegisterInfo &Target) {
  take(Register, Target);
  Costs.resize(Blocks.size());
  for (size_t I = 0; I < Blocks.size(); ++I) {
    if (!Rooms[I].Taken.empty())
      windows(I);
    for (const bool Enters : {false, true})
      for (const bool Leaves : {false, true})
        Costs[I][Enters + 2 * Leaves] = cost(I, Enters, Leaves);
  }
  if (any_of(Rooms, [](const Room &One) { return One.Taken.empty(); }))
    for (const Labels &Start : Starts)
      region(Start);
}

} // namespace

std::vector<Point> Allocation::points(size_t Range) {
  const LiveInterval &Interval = interval(Range);
  Finder Search(Interval, MF, Analysis);
  if (!Ranges[Range].Spillable || Ranges[Range].Depth >= MaxDepth || Interval.hasSubRanges() ||
      Interval.empty() || Ranges.size() > MaxRanges / 2 || !Search.begin())
    return {};
  for (const MCPhysReg Next : Classes.getOrder(Registers.getRegClass(Interval.reg())))
    Search.find(Next, Target);
  std::vector<Point> All = Search.takePoints();
  std::stable_sort(All.begin(), All.end(), [](const Point &A, const Point &B) {
    return A.Weight - A.Frequency > B.Weight - B.Frequency;
  });
  if (All.size() > MaxPoints)
    All.resize(MaxPoints);
  return All;
}

} // namespace mlbridge::register_allocation
