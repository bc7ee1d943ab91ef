// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Counts the IR and scales the counts.
#include "ir_features.h"

#include "versions/block_numbers.h"

#include "llvm/ADT/bit.h"
#include "llvm/IR/CFG.h"
#include "llvm/IR/Instructions.h"
#include "llvm/IR/IntrinsicInst.h"
#include "llvm/Transforms/Utils/PromoteMemToReg.h"

using namespace llvm;

namespace mlbridge::phase_ordering {

namespace {

// These are observed as log2 of the ratio to the count at reset.
constexpr Count Changes[] = {
    Count::functions,
    Count::internal_functions,
    Count::globals,
    Count::blocks,
    Count::backward_edges,
    Count::single_predecessor_blocks,
    Count::instructions,
    Count::size_estimate,
    Count::allocas,
    Count::promotable_allocas,
    Count::loads,
    Count::stores,
    Count::address_computations,
    Count::internal_calls,
    Count::external_calls,
    Count::memory_intrinsics,
    Count::jumps,
    Count::branches,
    Count::switches,
    Count::returns,
    Count::phis,
    Count::selects,
    Count::integer_compares,
    Count::additions,
    Count::bitwise,
    Count::shifts,
    Count::truncations,
    Count::extensions,
    Count::vector_values,
    Count::constant_operands,
};

// These are observed per instruction.
constexpr Count Densities[] = {
    Count::blocks,
    Count::size_estimate,
    Count::promotable_allocas,
    Count::loads,
    Count::stores,
    Count::address_computations,
    Count::internal_calls,
    Count::external_calls,
    Count::jumps,
    Count::branches,
    Count::phis,
    Count::phi_operands,
    Count::selects,
    Count::integer_compares,
    Count::additions,
    Count::bitwise,
    Count::extensions,
    Count::single_use_values,
    Count::unused_values,
    Count::constant_operands,
};

// These are observed as log2 of the ratio to the count before the last step.
constexpr Count LastSteps[] = {
    Count::instructions,   Count::size_estimate, Count::blocks,
    Count::internal_calls, Count::loads,         Count::stores,
};

// log2(1 + N), linear between powers of two: the same on every machine, unlike that of libm.
float log2Plus1(uint64_t N) {
  const uint64_t Value = N + 1;
  const unsigned Exponent = 63 - llvm::countl_zero(Value);
  const uint64_t Rest = Value - (uint64_t(1) << Exponent);
  return float(Exponent) + float(Rest) / float(uint64_t(1) << Exponent);
}

// Machine instructions that an instruction becomes, roughly, on any target: a fixed table, because
// the target's own cost model takes longer than all other counting.
unsigned sizeEstimate(const Instruction &I) {
  switch (I.getOpcode()) {
  case Instruction::Alloca:
  case Instruction::BitCast:
  case Instruction::AddrSpaceCast:
  case Instruction::PtrToInt:
  case Instruction::IntToPtr:
  case Instruction::Trunc:
  case Instruction::Freeze:
  case Instruction::Unreachable:
  case Instruction::LandingPad:
    return 0;
  case Instruction::GetElementPtr:
    return cast<GetElementPtrInst>(I).hasAllConstantIndices() ? 0 : 1;
  case Instruction::Call:
  case Instruction::Invoke:
    if (I.isLifetimeStartOrEnd() || I.isDebugOrPseudoInst())
      return 0;
    return isa<IntrinsicInst>(I) ? 2 : 1 + cast<CallBase>(I).arg_size();
  case Instruction::Br:
    return cast<BranchInst>(I).isConditional() ? 2 : 1;
  case Instruction::Switch:
    return 2 + 2 * cast<SwitchInst>(I).getNumCases();
  case Instruction::Ret:
  case Instruction::Select:
    return 2;
  case Instruction::UDiv:
  case Instruction::SDiv:
  case Instruction::URem:
  case Instruction::SRem:
    return 3;
  default:
    return I.getType()->isVectorTy() ? 2 : 1;
  }
}

// The count of an instruction, where its opcode alone decides it.
struct Kind {
  Count Which;
  std::initializer_list<unsigned> Opcodes;
};
constexpr Kind Kinds[] = {
    {Count::allocas, {Instruction::Alloca}},
    {Count::loads, {Instruction::Load}},
    {Count::stores, {Instruction::Store}},
    {Count::address_computations, {Instruction::GetElementPtr}},
    {Count::exception_handling,
     {Instruction::Invoke, Instruction::LandingPad, Instruction::Resume, Instruction::CatchPad,
      Instruction::CatchRet, Instruction::CatchSwitch, Instruction::CleanupPad,
      Instruction::CleanupRet}},
    {Count::switches, {Instruction::Switch}},
    {Count::returns, {Instruction::Ret}},
    {Count::unreachables, {Instruction::Unreachable}},
    {Count::phis, {Instruction::PHI}},
    {Count::selects, {Instruction::Select}},
    {Count::integer_compares, {Instruction::ICmp}},
    {Count::float_compares, {Instruction::FCmp}},
    {Count::additions, {Instruction::Add, Instruction::Sub}},
    {Count::multiplications, {Instruction::Mul}},
    {Count::divisions,
     {Instruction::UDiv, Instruction::SDiv, Instruction::URem, Instruction::SRem}},
    {Count::shifts, {Instruction::Shl, Instruction::LShr, Instruction::AShr}},
    {Count::bitwise, {Instruction::And, Instruction::Or, Instruction::Xor}},
    {Count::float_arithmetic,
     {Instruction::FNeg, Instruction::FAdd, Instruction::FSub, Instruction::FMul, Instruction::FDiv,
      Instruction::FRem}},
    {Count::truncations, {Instruction::Trunc}},
    {Count::extensions, {Instruction::ZExt, Instruction::SExt}},
    {Count::aggregates, {Instruction::ExtractValue, Instruction::InsertValue}},
    {Count::atomics, {Instruction::Fence, Instruction::AtomicCmpXchg, Instruction::AtomicRMW}},
};

constexpr auto KindOfOpcode = [] {
  std::array<unsigned, Instruction::OtherOpsEnd> Counted{};
  for (unsigned &Each : Counted)
    Each = NumCounts;
  for (const auto &[Which, Opcodes] : Kinds)
    for (unsigned Opcode : Opcodes)
      Counted[Opcode] = unsigned(Which);
  return Counted;
}();

class Counter {
public:
  Counter(Counts &Result) : Result(Result) {}

  void add(Count Which, uint64_t N = 1) { Result[unsigned(Which)] += N; }

  void visit(const Function &F) {
    add(Count::functions);
    add(Count::internal_functions, F.hasLocalLinkage());
    add(Count::single_use_functions, F.hasLocalLinkage() && F.hasOneUse());
    add(Count::unused_functions, F.hasLocalLinkage() && F.use_empty());
    add(Count::minsize_functions, F.hasMinSize());
    add(Count::optsize_functions, F.hasOptSize());
    add(Count::noinline_functions, F.hasFnAttribute(Attribute::NoInline));
    add(Count::readonly_functions, F.onlyReadsMemory());
    add(Count::nounwind_functions, F.doesNotThrow());
    add(Count::arguments, F.arg_size());
    for (const Argument &A : F.args())
      add(Count::unused_arguments, A.use_empty());
    const versions::BlockNumbers Numbers(F);
    for (const BasicBlock &Block : F) {
      add(Count::blocks);
      add(Count::single_predecessor_blocks, Block.getSinglePredecessor() != nullptr);
      add(Count::empty_blocks, &Block.front() == Block.getTerminator());
      // Block numbers follow the layout unless blocks were moved; either way they are stable.
      countBackwardEdges(Block, Numbers);
      for (const Instruction &I : Block)
        if (I.getOpcode() != Instruction::Call || !I.isDebugOrPseudoInst())
          visit(I, F);
    }
  }

private:
  void countBackwardEdges(const BasicBlock &Block, const versions::BlockNumbers &Numbers) {
    const auto Visit = [&](const BasicBlock *Next) {
      add(Count::backward_edges, Numbers[Next] <= Numbers[&Block]);
    };
    // The general way asks for the number of successors again and again.
    if (const auto *Branch = dyn_cast<BranchInst>(Block.getTerminator())) {
      Visit(Branch->getSuccessor(0));
      if (Branch->isConditional())
        Visit(Branch->getSuccessor(1));
    } else if (!isa<ReturnInst>(Block.getTerminator())) {
      for (const BasicBlock *Next : successors(&Block))
        Visit(Next);
    }
  }

  void visit(const Instruction &I, const Function &F) {
    add(Count::instructions);
    add(Count::size_estimate, sizeEstimate(I));
    if (!I.getType()->isVoidTy()) {
      add(Count::single_use_values, I.hasOneUse());
      add(Count::unused_values, I.use_empty());
      add(Count::vector_values, I.getType()->isVectorTy());
    }
    for (const Value *Operand : I.operands()) {
      if (!isa<ConstantData>(Operand))
        continue;
      add(Count::constant_operands);
      if (auto *Integer = dyn_cast<ConstantInt>(Operand))
        add(Count::large_constants, Integer->getValue().getSignificantBits() > 8);
    }
    visitOpcode(I, F);
  }

  void visitOpcode(const Instruction &I, const Function &F) {
    const unsigned Kind = KindOfOpcode[I.getOpcode()];
    if (Kind != NumCounts)
      add(Count(Kind));
    switch (I.getOpcode()) {
    case Instruction::Alloca:
      add(Count::promotable_allocas, isAllocaPromotable(cast<AllocaInst>(&I)));
      break;
    case Instruction::GetElementPtr:
      add(Count::constant_addresses, cast<GetElementPtrInst>(I).hasAllConstantIndices());
      break;
    case Instruction::Call:
      visitCall(cast<CallInst>(I), F);
      break;
    case Instruction::Br:
      add(cast<BranchInst>(I).isConditional() ? Count::branches : Count::jumps);
      break;
    case Instruction::Switch:
      add(Count::switch_cases, cast<SwitchInst>(I).getNumCases());
      break;
    case Instruction::PHI:
      add(Count::phi_operands, I.getNumOperands());
      break;
    default:
      add(Count::other_casts, Kind == NumCounts && I.isCast());
      break;
    }
  }

  void visitCall(const CallInst &Call, const Function &F) {
    if (auto *Intrinsic = dyn_cast<IntrinsicInst>(&Call)) {
      add(isa<MemIntrinsic>(Intrinsic)        ? Count::memory_intrinsics
          : Intrinsic->isLifetimeStartOrEnd() ? Count::lifetime_markers
                                              : Count::other_intrinsics);
      return;
    }
    if (Call.isInlineAsm()) {
      add(Count::inline_assembly);
      return;
    }
    const Function *Callee = Call.getCalledFunction();
    add(!Callee                   ? Count::indirect_calls
        : Callee->isDeclaration() ? Count::external_calls
                                  : Count::internal_calls);
    add(Count::recursive_calls, Callee == &F);
    const Instruction *Next = Call.getNextNode();
    add(Count::calls_before_return, Next && isa<ReturnInst>(Next));
  }

  Counts &Result;
};

} // namespace

Counts countIR(const Module &M) {
  Counts Result{};
  Counter C(Result);
  for (const GlobalVariable &Variable : M.globals()) {
    if (Variable.isDeclaration())
      continue;
    C.add(Count::globals);
    C.add(Count::constant_globals, Variable.isConstant());
    C.add(Count::internal_globals, Variable.hasLocalLinkage());
  }
  for (const Function &F : M) {
    if (F.isDeclaration())
      C.add(Count::declarations);
    else
      C.visit(F);
  }
  return Result;
}

size_t Features::size() {
  return NumCounts + std::size(Changes) + std::size(Densities) + std::size(LastSteps);
}

void Features::reset(const Counts &First) { Initial = Previous = First; }

void Features::write(const Counts &Now, MutableArrayRef<float> Out) {
  const auto Log = [](const Counts &C, Count Which) { return log2Plus1(C[unsigned(Which)]); };
  float *Next = Out.data();
  for (uint64_t N : Now)
    *Next++ = log2Plus1(N) / 16;
  for (Count Which : Changes)
    *Next++ = Log(Now, Which) - Log(Initial, Which);
  const uint64_t Instructions = std::max<uint64_t>(Now[unsigned(Count::instructions)], 1);
  for (Count Which : Densities)
    *Next++ = float(Now[unsigned(Which)]) / float(Instructions);
  for (Count Which : LastSteps)
    *Next++ = Log(Now, Which) - Log(Previous, Which);
  Previous = Now;
}

} // namespace mlbridge::phase_ordering
