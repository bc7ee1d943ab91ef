// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "features.h"

#include "library_calls.h"

#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/SCCIterator.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallPtrSet.h"
#include "llvm/Analysis/BlockFrequencyInfo.h"
#include "llvm/Analysis/BranchProbabilityInfo.h"
#include "llvm/Analysis/LoopInfo.h"
#include "llvm/IR/Constants.h"
#include "llvm/IR/Dominators.h"
#include "llvm/IR/InlineAsm.h"
#include "llvm/IR/Instructions.h"
#include "llvm/IR/IntrinsicInst.h"

#include <algorithm>
#include <cmath>
#include <deque>

using namespace llvm;

namespace mlbridge::hotness {

namespace {

constexpr StringLiteral Names[] = {
#define MLBRIDGE_ONE(Name) #Name,
    MLBRIDGE_HOTNESS_FEATURES(MLBRIDGE_ONE)
#undef MLBRIDGE_ONE
};
constexpr size_t Width = std::size(Names);

/// Rounds in which frequencies spread along the call graph: as many as chains of calls are long.
constexpr unsigned Rounds = 12;
/// Frequencies beyond say nothing more, and recursion would make them infinite.
constexpr double MostFrequent = 1e15;
/// A block is unlikely if it is entered less often than this, of all times that the function is.
constexpr double Unlikely = 1.0 / 16;

/// A call of a function of the module.
struct CallSite {
  unsigned Caller, Callee;
  unsigned Depth;   ///< of the loops around it
  double Frequency; ///< in units of the caller's entry's
};

/// The rows while they are being filled.
class Rows {
public:
  explicit Rows(size_t Count) : Values(Count * Width) {}
  double &at(size_t Row, Feature Which) { return Values[Row * Width + size_t(Which)]; }
  const std::vector<double> &values() const { return Values; }

private:
  std::vector<double> Values;
};

/// Describes one function: what it does, its loops, its own frequencies and its calls.
class Reader {
public:
  Reader(llvm::Function &F, unsigned Row, const DenseMap<const llvm::Function *, unsigned> &Numbers,
         Rows &To, std::vector<CallSite> &Sites)
      : F(F), Row(Row), Numbers(Numbers), To(To), Sites(Sites) {}

  void read() {
    readSignature();
    Tree.recalculate(F);
    Loops.analyze(Tree);
    const bool IsStraight = F.size() == 1;
    if (!IsStraight) {
      Probabilities.calculate(F, Loops, nullptr, &Tree, nullptr);
      Frequencies.calculate(F, Probabilities, Loops);
    }
    const double Entry = IsStraight ? 1 : double(Frequencies.getEntryFreq().getFrequency());
    for (const BasicBlock &Block : F) {
      Frequency = IsStraight || Entry == 0
                      ? 1
                      : double(Frequencies.getBlockFreq(&Block).getFrequency()) / Entry;
      L = IsStraight ? nullptr : Loops.getLoopFor(&Block);
      readBlock(Block);
    }
    readLoops();
  }

private:
  double &at(Feature Which) { return To.at(Row, Which); }
  void add(Feature Which, double Value = 1) { at(Which) += Value; }
  void addInLoop(Feature Always, Feature InLoop) {
    add(Always);
    if (L)
      add(InLoop);
  }

  void readSignature() {
    at(Feature::arguments) = double(F.arg_size());
    for (const Argument &A : F.args()) {
      add(Feature::pointer_arguments, A.getType()->isPointerTy());
      add(Feature::unused_arguments, A.use_empty());
    }
    at(Feature::variadic) = F.isVarArg();
    at(Feature::returns_pointer) = F.getReturnType()->isPointerTy();
    at(Feature::returns_float) = F.getReturnType()->isFPOrFPVectorTy();
    at(Feature::returns_nothing) = F.getReturnType()->isVoidTy();
    at(Feature::internal) = F.hasLocalLinkage();
    at(Feature::merged_by_linker) = F.hasLinkOnceLinkage() || F.hasWeakLinkage();
    at(Feature::inline_hint) = F.hasFnAttribute(Attribute::InlineHint);
    at(Feature::does_not_return) = F.doesNotReturn();
    at(Feature::only_reads) = F.onlyReadsMemory();
    at(Feature::is_main) = F.getName() == "main";
  }

  void readBlock(const BasicBlock &Block) {
    add(Feature::blocks);
    const double Before = at(Feature::instructions);
    for (const Instruction &I : Block)
      if (!I.isDebugOrPseudoInst() && !I.isLifetimeStartOrEnd())
        readInstruction(I);
    const double Count = at(Feature::instructions) - Before;
    at(Feature::largest_frequency) = std::max(at(Feature::largest_frequency), Frequency);
    add(Feature::work, Count * Frequency);
    if (Frequency < Unlikely)
      add(Feature::unlikely_instructions, Count);
    if (L) {
      at(Feature::deepest_loop) = std::max<double>(at(Feature::deepest_loop), L->getLoopDepth());
      add(Feature::instructions_in_loops, Count);
      Inside[L] += Count;
      if (L->isInnermost())
        add(Feature::instructions_in_innermost_loops, Count);
    }
  }

  void readLoops() {
    for (const Loop *Each : Loops.getLoopsInPreorder()) {
      add(Feature::loops);
      if (!HasCalls.contains(Each))
        add(Feature::loops_without_calls);
      if (!Each->isInnermost())
        continue;
      add(Feature::innermost_loops);
      double &Largest = at(Feature::largest_innermost_loop);
      double &Smallest = at(Feature::smallest_innermost_loop);
      const double Size = Inside.lookup(Each);
      Largest = std::max(Largest, Size);
      Smallest = Smallest == 0 ? Size : std::min(Smallest, Size);
    }
  }

  static bool isByte(const Type *T) { return T->isIntegerTy(8); }

  void readInstruction(const Instruction &I) {
    add(Feature::instructions);
    add(Feature::vector_values, I.getType()->isVectorTy());
    for (const Value *Operand : I.operands())
      readOperand(Operand);
    switch (I.getOpcode()) {
    case Instruction::Load:
      addInLoop(Feature::loads, Feature::loads_in_loops);
      if (isByte(I.getType()))
        addInLoop(Feature::byte_accesses, Feature::byte_accesses_in_loops);
      break;
    case Instruction::Store: {
      const auto &Store = cast<StoreInst>(I);
      addInLoop(Feature::stores, Feature::stores_in_loops);
      if (isByte(Store.getValueOperand()->getType()))
        addInLoop(Feature::byte_accesses, Feature::byte_accesses_in_loops);
      add(Feature::global_stores,
          isa<GlobalVariable>(Store.getPointerOperand()->stripInBoundsConstantOffsets()));
      break;
    }
    case Instruction::ICmp:
    case Instruction::FCmp:
      add(Feature::comparisons);
      break;
    case Instruction::Add:
    case Instruction::Sub:
      add(Feature::additions);
      break;
    case Instruction::Mul:
      add(Feature::multiplications);
      break;
    case Instruction::UDiv:
    case Instruction::SDiv:
    case Instruction::URem:
    case Instruction::SRem:
      add(Feature::divisions);
      break;
    case Instruction::And:
    case Instruction::Or:
    case Instruction::Xor:
    case Instruction::Shl:
    case Instruction::LShr:
    case Instruction::AShr:
      addInLoop(Feature::bitwise, Feature::bitwise_in_loops);
      break;
    case Instruction::FNeg:
    case Instruction::FAdd:
    case Instruction::FSub:
    case Instruction::FMul:
    case Instruction::FDiv:
    case Instruction::FRem:
      addInLoop(Feature::float_arithmetic, Feature::float_arithmetic_in_loops);
      break;
    case Instruction::GetElementPtr:
      add(Feature::address_computations);
      break;
    case Instruction::Select:
      add(Feature::selects);
      break;
    case Instruction::PHI:
      add(Feature::phis);
      readPhi(cast<PHINode>(I));
      break;
    case Instruction::Alloca:
      add(Feature::allocas);
      break;
    case Instruction::Ret:
      add(Feature::returns);
      add(Feature::constant_returns, I.getNumOperands() && isa<ConstantData>(I.getOperand(0)));
      break;
    case Instruction::Unreachable:
      add(Feature::unreachables);
      break;
    case Instruction::Switch: {
      const double Cases = cast<SwitchInst>(I).getNumCases();
      add(Feature::switches);
      add(Feature::switch_cases, Cases);
      if (L)
        add(Feature::cases_in_loops, Cases);
      break;
    }
    case Instruction::LandingPad:
    case Instruction::CatchPad:
    case Instruction::CleanupPad:
      add(Feature::landing_pads);
      break;
    case Instruction::Fence:
    case Instruction::AtomicCmpXchg:
    case Instruction::AtomicRMW:
      add(Feature::atomics);
      break;
    case Instruction::Call:
    case Instruction::Invoke:
    case Instruction::CallBr:
      readCall(cast<CallBase>(I));
      break;
    default:
      add(Feature::branches, I.isTerminator() && I.getNumSuccessors() > 1);
      add(Feature::casts, I.isCast());
      break;
    }
  }

  void readOperand(const Value *Operand) {
    const auto *Variable = dyn_cast<GlobalVariable>(Operand);
    if (!Variable || !Variable->isConstant() || !Variable->hasInitializer())
      return;
    const auto *Text = dyn_cast<ConstantDataSequential>(Variable->getInitializer());
    if (!Text || !Text->isString())
      return;
    add(Feature::strings);
    add(Feature::formats, Text->getAsString().contains('%'));
  }

  /// A value that each iteration of a loop adds to, multiplies or combines bit by bit.
  void readPhi(const PHINode &Phi) {
    if (!L || L->getHeader() != Phi.getParent())
      return;
    add(Feature::reductions, any_of(Phi.incoming_values(), [&](const Value *Next) {
          const auto *Binary = dyn_cast<BinaryOperator>(Next);
          return Binary && is_contained(Binary->operands(), &Phi) &&
                 none_of(Binary->operands(), [](const Value *V) { return isa<Constant>(V); });
        }));
  }

  void readCall(const CallBase &Call) {
    if (const auto *Intrinsic = dyn_cast<IntrinsicInst>(&Call)) {
      add(Feature::memory_calls, isa<MemIntrinsic>(Intrinsic));
      add(Feature::float_arithmetic, Intrinsic->getType()->isFPOrFPVectorTy());
      return;
    }
    if (Call.isInlineAsm()) {
      add(Feature::inline_assembly);
      return;
    }
    for (const Loop *Around = L; Around; Around = Around->getParentLoop())
      HasCalls.insert(Around);
    addInLoop(Feature::calls, Feature::calls_in_loops);
    const auto *Plain = dyn_cast<CallInst>(&Call);
    add(Feature::tail_calls, Plain && Plain->isTailCall());
    const auto *Callee =
        dyn_cast<llvm::Function>(Call.getCalledOperand()->stripPointerCastsAndAliases());
    if (!Callee) {
      add(Feature::indirect_calls);
      return;
    }
    add(Feature::self_calls, Callee == &F);
    if (const auto Found = Numbers.find(Callee); Found != Numbers.end()) {
      add(Feature::internal_calls);
      Sites.push_back({Row, Found->second, L ? L->getLoopDepth() : 0, Frequency});
      return;
    }
    add(Feature::external_calls);
    static constexpr std::pair<Purpose, Feature> Columns[] = {
        {Purpose::Print, Feature::printing_calls}, {Purpose::Format, Feature::formatting_calls},
        {Purpose::End, Feature::ending_calls},     {Purpose::Allocate, Feature::allocating_calls},
        {Purpose::Memory, Feature::memory_calls},  {Purpose::Text, Feature::text_calls},
        {Purpose::File, Feature::file_calls},      {Purpose::Setting, Feature::setting_calls},
        {Purpose::Math, Feature::math_calls},      {Purpose::Throw, Feature::throwing_calls},
    };
    const Purpose Which = purposeOf(Callee->getName());
    for (const auto &[Known, Column] : Columns)
      if (Which == Known)
        add(Column);
  }

  llvm::Function &F;
  const unsigned Row;
  const DenseMap<const llvm::Function *, unsigned> &Numbers;
  Rows &To;
  std::vector<CallSite> &Sites;
  DominatorTree Tree;
  LoopInfo Loops;
  BranchProbabilityInfo Probabilities;
  BlockFrequencyInfo Frequencies;
  DenseMap<const Loop *, double> Inside;
  SmallPtrSet<const Loop *, 8> HasCalls;
  double Frequency = 1;    ///< of the block that is being read
  const Loop *L = nullptr; ///< around it
};

/// What the call graph says: callers, and frequencies that spread along calls.
class CallGraphReader {
public:
  CallGraphReader(const std::vector<llvm::Function *> &Functions, ArrayRef<CallSite> Sites,
                  Rows &To)
      : Functions(Functions), Sites(Sites), To(To), Count(Functions.size()) {}

  void read() {
    readSites();
    readRoots();
    readDistances();
    readRecursion();
    spread();
    rank();
    readWorkBelow();
  }

private:
  double &at(size_t Row, Feature Which) { return To.at(Row, Which); }

  void readSites() {
    std::vector<SmallPtrSet<const llvm::Function *, 4>> Callers(Count);
    for (const CallSite &Site : Sites) {
      Callers[Site.Callee].insert(Functions[Site.Caller]);
      ++at(Site.Callee, Feature::call_sites);
      double &Depth = at(Site.Callee, Feature::deepest_call);
      Depth = std::max<double>(Depth, Site.Depth);
      double &Largest = at(Site.Callee, Feature::largest_call_frequency);
      Largest = std::max(Largest, Site.Frequency);
      at(Site.Callee, Feature::unlikely_calls) += Site.Frequency < Unlikely;
      double &Above = at(Site.Callee, Feature::deepest_loop_of_callers);
      Above = std::max(Above, at(Site.Caller, Feature::deepest_loop));
      double &Below = at(Site.Caller, Feature::deepest_loop_of_callees);
      Below = std::max(Below, at(Site.Callee, Feature::deepest_loop));
    }
    for (size_t Row = 0; Row < Count; ++Row)
      at(Row, Feature::callers) = double(Callers[Row].size());
  }

  /// Functions that something outside may call, or a pointer.
  void readRoots() {
    IsRoot.resize(Count);
    for (size_t Row = 0; Row < Count; ++Row) {
      const llvm::Function &F = *Functions[Row];
      double Addresses = 0;
      for (const Use &U : F.uses()) {
        const auto *Call = dyn_cast<CallBase>(U.getUser());
        Addresses += !Call || !Call->isCallee(&U);
      }
      at(Row, Feature::address_uses) = Addresses;
      IsRoot[Row] = Addresses > 0 || at(Row, Feature::is_main) != 0 ||
                    (!F.hasLocalLinkage() && at(Row, Feature::call_sites) == 0);
    }
  }

  std::vector<double> distances(function_ref<bool(size_t)> IsStart) const {
    constexpr double Far = 99;
    std::vector<double> Steps(Count, Far);
    std::vector<SmallVector<unsigned, 4>> Callees(Count);
    for (const CallSite &Site : Sites)
      Callees[Site.Caller].push_back(Site.Callee);
    std::deque<unsigned> Next;
    for (size_t Row = 0; Row < Count; ++Row)
      if (IsStart(Row)) {
        Steps[Row] = 0;
        Next.push_back(unsigned(Row));
      }
    for (; !Next.empty(); Next.pop_front())
      for (const unsigned Callee : Callees[Next.front()])
        if (Steps[Callee] == Far) {
          Steps[Callee] = Steps[Next.front()] + 1;
          Next.push_back(Callee);
        }
    return Steps;
  }

  void readDistances() {
    const auto FromMain = distances([&](size_t Row) { return at(Row, Feature::is_main) != 0; });
    const auto FromRoots = distances([&](size_t Row) { return bool(IsRoot[Row]); });
    for (size_t Row = 0; Row < Count; ++Row) {
      at(Row, Feature::distance) = FromMain[Row];
      at(Row, Feature::depth_from_roots) = FromRoots[Row];
    }
  }

  /// Tarjan's strongly connected components, without recursion: a module may have chains of calls
  /// of any length.
  void readRecursion() {
    std::vector<SmallVector<unsigned, 4>> Callees(Count);
    for (const CallSite &Site : Sites)
      Callees[Site.Caller].push_back(Site.Callee);
    std::vector<unsigned> Index(Count), Low(Count);
    std::vector<bool> IsOpen(Count);
    std::vector<unsigned> Stack;
    std::vector<std::pair<unsigned, unsigned>> Path; // a function, and the next callee to visit
    unsigned Next = 1;
    const auto Enter = [&](unsigned Row) {
      Index[Row] = Low[Row] = Next++;
      Stack.push_back(Row);
      IsOpen[Row] = true;
      Path.push_back({Row, 0});
    };
    for (unsigned Start = 0; Start < Count; ++Start) {
      if (Index[Start])
        continue;
      Enter(Start);
      while (!Path.empty()) {
        const unsigned Row = Path.back().first;
        if (Path.back().second < Callees[Row].size()) {
          const unsigned Callee = Callees[Row][Path.back().second++];
          if (!Index[Callee])
            Enter(Callee);
          else if (IsOpen[Callee])
            Low[Row] = std::min(Low[Row], Index[Callee]);
          continue;
        }
        Path.pop_back();
        if (!Path.empty())
          Low[Path.back().first] = std::min(Low[Path.back().first], Low[Row]);
        if (Low[Row] == Index[Row])
          close(Row, Stack, IsOpen);
      }
    }
  }

  void close(unsigned Root, std::vector<unsigned> &Stack, std::vector<bool> &IsOpen) {
    const auto Begin = std::find(Stack.rbegin(), Stack.rend(), Root).base() - 1;
    const auto Size = double(Stack.end() - Begin);
    for (auto Each = Begin; Each != Stack.end(); ++Each) {
      IsOpen[*Each] = false;
      at(*Each, Feature::recursive) = Size > 1 || at(*Each, Feature::self_calls) > 0 ? Size : 0;
    }
    Stack.erase(Begin, Stack.end());
  }

  /// How often each function is entered, if each root is once.
  void spread() {
    std::vector<double> Now(Count), Next(Count);
    for (unsigned Round = 0; Round < Rounds; ++Round) {
      for (size_t Row = 0; Row < Count; ++Row)
        Next[Row] = IsRoot[Row] ? 1 : 0;
      for (const CallSite &Site : Sites)
        if (Site.Caller != Site.Callee)
          Next[Site.Callee] =
              std::min(Next[Site.Callee] + Now[Site.Caller] * Site.Frequency, MostFrequent);
      if (Now == Next)
        break;
      std::swap(Now, Next);
    }
    for (size_t Row = 0; Row < Count; ++Row) {
      at(Row, Feature::frequency) = Now[Row];
      at(Row, Feature::frequency_times_work) = Now[Row] * at(Row, Feature::work);
    }
  }

  void rank() {
    std::vector<std::pair<double, size_t>> Sorted(Count);
    for (size_t Row = 0; Row < Count; ++Row)
      Sorted[Row] = {at(Row, Feature::frequency_times_work), Row};
    llvm::sort(Sorted);
    for (size_t Place = 0; Place < Count; ++Place) {
      const size_t Row = Sorted[Place].second;
      at(Row, Feature::rank) = double(Place + 1) / double(Count);
      at(Row, Feature::of_largest) =
          Sorted.back().first > 0 ? Sorted[Place].first / Sorted.back().first : 0;
    }
  }

  /// The largest work of a function together with what it calls directly.
  void readWorkBelow() {
    std::vector<double> Below(Count);
    for (const CallSite &Site : Sites)
      Below[Site.Caller] = std::min(
          Below[Site.Caller] + Site.Frequency * at(Site.Callee, Feature::work), MostFrequent);
    for (size_t Row = 0; Row < Count; ++Row)
      at(Row, Feature::work_below) = Below[Row];
  }

  const std::vector<llvm::Function *> &Functions;
  const ArrayRef<CallSite> Sites;
  Rows &To;
  const size_t Count;
  std::vector<bool> IsRoot;
};

/// Constructors of the module: functions that run before main.
void markStarts(const Module &M, const DenseMap<const llvm::Function *, unsigned> &Numbers,
                Rows &To) {
  const GlobalVariable *List = M.getGlobalVariable("llvm.global_ctors");
  const auto *Entries =
      List && List->hasInitializer() ? dyn_cast<ConstantArray>(List->getInitializer()) : nullptr;
  if (!Entries)
    return;
  for (const Use &Entry : Entries->operands()) {
    const auto *Fields = dyn_cast<ConstantStruct>(Entry);
    const auto *F =
        Fields ? dyn_cast<llvm::Function>(Fields->getOperand(1)->stripPointerCasts()) : nullptr;
    if (const auto Found = Numbers.find(F); F && Found != Numbers.end())
      To.at(Found->second, Feature::runs_at_start) = 1;
  }
}

void describeModule(size_t Count, Rows &To) {
  double Instructions = 0, Loops = 0, Internal = 0, HasMain = 0;
  for (size_t Row = 0; Row < Count; ++Row) {
    Instructions += To.at(Row, Feature::instructions);
    Loops += To.at(Row, Feature::loops);
    Internal += To.at(Row, Feature::internal);
    HasMain += To.at(Row, Feature::is_main);
  }
  for (size_t Row = 0; Row < Count; ++Row) {
    To.at(Row, Feature::module_functions) = double(Count);
    To.at(Row, Feature::module_instructions) = Instructions;
    To.at(Row, Feature::module_has_main) = HasMain;
    To.at(Row, Feature::position) = double(Row) / double(Count);
    To.at(Row, Feature::module_loops) = Loops / double(Count);
    To.at(Row, Feature::module_internal) = Internal / double(Count);
  }
}

} // namespace

ArrayRef<StringLiteral> featureNames() { return Names; }

Description::Description(Module &M) {
  DenseMap<const llvm::Function *, unsigned> Numbers;
  for (llvm::Function &F : M)
    if (!F.isDeclaration() && !F.hasAvailableExternallyLinkage()) {
      Numbers.try_emplace(&F, unsigned(Functions.size()));
      Functions.push_back(&F);
    }
  Rows To(Functions.size());
  std::vector<CallSite> Sites;
  for (const auto &[Row, F] : enumerate(Functions))
    Reader(*F, unsigned(Row), Numbers, To, Sites).read();
  CallGraphReader(Functions, Sites, To).read();
  markStarts(M, Numbers, To);
  describeModule(Functions.size(), To);
  Values.assign(To.values().begin(), To.values().end());
}

} // namespace mlbridge::hotness
