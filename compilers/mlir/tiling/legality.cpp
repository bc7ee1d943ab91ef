// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "legality.h"

#include "mlir/Analysis/AliasAnalysis/LocalAliasAnalysis.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/IR/AttrTypeSubElements.h"
#include "mlir/IR/SymbolTable.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "mlir/Interfaces/ViewLikeInterface.h"

using namespace mlir;

namespace mlbridge::tiling {

namespace {

/// The memref that this one is a part of, or itself.
Value root(Value Memref) {
  while (auto View = Memref.getDefiningOp<ViewLikeOpInterface>())
    Memref = View.getViewSource();
  return Memref;
}

/// The function whose argument this is, and the argument's number.
FunctionOpInterface functionOf(Value Operand, unsigned &Number) {
  const auto Argument = dyn_cast<BlockArgument>(Operand);
  if (!Argument || !Argument.getOwner()->isEntryBlock())
    return nullptr;
  Number = Argument.getArgNumber();
  return dyn_cast<FunctionOpInterface>(Argument.getOwner()->getParentOp());
}

bool isNew(Value Memref) {
  auto Effects = Memref.getDefiningOp<MemoryEffectOpInterface>();
  return Effects && hasSingleEffect<MemoryEffects::Allocate>(Effects, Memref);
}

/// True if the value may be what an async.execute takes from another one, whose results MLIR's
/// analysis can't follow: it crashes.
bool isAwaited(Value Memref) {
  Operation *Around = Memref.getParentRegion()->getParentOp();
  for (; Around; Around = Around->getParentOp())
    if (Around->getName().getStringRef() == "async.execute" &&
        Around->getRegion(0).getNumArguments())
      return true;
  return false;
}

/// True if two elements of such a memref may lie at one place. Unknown strides are taken to be
/// those of a part of a larger memref.
bool overlapsItself(MemRefType Type) {
  SmallVector<int64_t> Strides;
  int64_t Offset = 0;
  if (failed(Type.getStridesAndOffset(Strides, Offset)))
    return true;
  SmallVector<std::pair<int64_t, int64_t>> Steps;
  for (const auto [Stride, Length] : llvm::zip_equal(Strides, Type.getShape()))
    if (!ShapedType::isDynamic(Stride) && !ShapedType::isDynamic(Length) && Length > 1)
      Steps.emplace_back(std::abs(Stride), Length);
  llvm::sort(Steps);
  int64_t Reach = 0; // from the first to the last element of the dimensions so far
  for (const auto &[Stride, Length] : Steps) {
    if (Stride <= Reach)
      return true;
    Reach += (Length - 1) * Stride;
  }
  return false;
}

/// True if the value's type, or how it is made, says that it may overlap itself.
bool makesOverlap(Value Memref) {
  const auto Type = dyn_cast<MemRefType>(Memref.getType());
  if (!Type)
    return false;
  auto Cast = Memref.getDefiningOp<memref::ReinterpretCastOp>();
  return overlapsItself(Type) ||
         (Cast && llvm::any_of(Cast.getStaticStrides(), ShapedType::isDynamic));
}

bool hasKnownStrides(MemRefType Type) {
  SmallVector<int64_t> Strides;
  int64_t Offset = 0;
  return succeeded(Type.getStridesAndOffset(Strides, Offset)) &&
         llvm::none_of(Strides, ShapedType::isDynamic);
}

/// True for a sum of loops, each times a positive number, and of a constant: the first element that
/// a part of the loops accesses is where they all begin, and the last where they all end.
bool isLinear(AffineExpr Index) {
  if (isa<AffineDimExpr>(Index))
    return true;
  if (const auto Fixed = dyn_cast<AffineConstantExpr>(Index))
    return Fixed.getValue() >= 0;
  const auto Both = dyn_cast<AffineBinaryOpExpr>(Index);
  if (!Both)
    return false;
  if (Both.getKind() == AffineExprKind::Add)
    return isLinear(Both.getLHS()) && isLinear(Both.getRHS());
  const auto Factor = dyn_cast<AffineConstantExpr>(Both.getRHS());
  return Both.getKind() == AffineExprKind::Mul && Factor && Factor.getValue() > 0 &&
         isLinear(Both.getLHS());
}

/// Checks that each parallel loop is a dimension of the output, and no other loop is.
std::string refusalOfOutput(linalg::LinalgOp Op, AffineMap Map) {
  llvm::SmallBitVector Followed(Op.getNumLoops());
  for (const AffineExpr Index : Map.getResults()) {
    if (isa<AffineConstantExpr>(Index))
      continue;
    const auto Loop = dyn_cast<AffineDimExpr>(Index);
    if (!Loop || Followed.test(Loop.getPosition()))
      return "an output's elements are not those of loops, one for each dimension";
    Followed.set(Loop.getPosition());
  }
  for (const auto [At, Kind] : llvm::enumerate(Op.getIteratorTypesArray())) {
    const bool Parallel = Kind == utils::IteratorType::parallel;
    if (Parallel && !Followed.test(At))
      return "a parallel loop is in no dimension of an output";
    if (!Parallel && Followed.test(At))
      return "a reduction loop is in a dimension of an output";
  }
  return "";
}

std::string refusalOfType(Value Operand) {
  const Type Whole = Operand.getType();
  const Type Element = getElementTypeOrSelf(Whole);
  if (!Element.isIntOrFloat() || Element.getIntOrFloatBitWidth() == 0)
    return "its elements are neither integers nor floating-point numbers";
  if (Whole == Element)
    return "";
  const auto Shaped = dyn_cast<ShapedType>(Whole);
  if (!Shaped || !Shaped.hasRank() || !isa<RankedTensorType, MemRefType>(Whole))
    return "an operand is neither a tensor, a memref nor a number";
  if (!Shaped.hasStaticShape())
    return "the length of a loop is not known";
  if (const auto Tensor = dyn_cast<RankedTensorType>(Whole))
    return Tensor.getEncoding() ? "a tensor has an encoding, such as a sparse one" : "";
  auto Memref = cast<MemRefType>(Whole);
  if (!Memref.isStrided())
    return "the layout of a memref has no strides";
  return Memref.getMemorySpace() ? "a memref is in a memory space of its own" : "";
}

/// Checks that a body only computes, in dialects that are lowered whatever is around them.
std::string refusalOfBody(linalg::LinalgOp Op) {
  static constexpr StringRef Dialects[] = {"affine", "arith",  "complex", "index", "linalg",
                                           "math",   "tensor", "scf",     "ub"};
  std::string Why;
  Op->getRegion(0).walk([&](Operation *Inner) {
    const bool Computes = Inner->hasTrait<OpTrait::IsTerminator>() || isMemoryEffectFree(Inner);
    if (Computes && llvm::is_contained(Dialects, Inner->getName().getDialectNamespace()) &&
        !isa<linalg::LinalgOp>(Inner))
      return WalkResult::advance();
    Why = ("its body has " + Inner->getName().getStringRef()).str();
    return WalkResult::interrupt();
  });
  return Why;
}

} // namespace

Memory::Memory(Operation *Module) : HasOuter(Module->getParentOp()) {
  AttrTypeWalker Attributes;
  Attributes.addWalk([&](SymbolRefAttr Symbol) {
    NamedElsewhere.insert(Symbol.getLeafReference());
    return WalkResult::skip();
  });
  // Some operations name what they call by a string.
  Attributes.addWalk([&](StringAttr Text) { NamedElsewhere.insert(Text); });
  SymbolTableCollection Symbols;
  Module->walk([&](Operation *Op) {
    SomeOverlap |= llvm::any_of(Op->getResults(), makesOverlap);
    Attribute Callee;
    if (auto Call = dyn_cast<CallOpInterface>(Op))
      if (Operation *const Function = Call.resolveCallableInTable(&Symbols)) {
        Callee = dyn_cast<SymbolRefAttr>(Call.getCallableForCallee());
        Calls[Function].push_back(Call);
      }
    for (const NamedAttribute Named : Op->getAttrs()) {
      if (Callee && Named.getValue() == Callee)
        Callee = nullptr; // named a second time, it is used in another way, too
      else if (Named.getName() != SymbolTable::getSymbolAttrName())
        Attributes.walk(Named.getValue());
    }
  });
}

bool Memory::someCall(FunctionOpInterface Function,
                      llvm::function_ref<bool(OperandRange)> Gives) const {
  if (NamedElsewhere.contains(StringAttr::get(Function->getContext(), Function.getName())) ||
      (HasOuter && SymbolTable::getSymbolVisibility(Function) != SymbolTable::Visibility::Private))
    return true;
  const auto Seen = Calls.find(Function.getOperation());
  return Seen != Calls.end() && llvm::any_of(Seen->second, [&](CallOpInterface Call) {
           const OperandRange Given = Call.getArgOperands();
           const auto Taken = Function.getFunctionBody().front().getArgumentTypes();
           return !llvm::equal(Given.getTypes(), Taken) || Gives(Given);
         });
}

bool Memory::mayOverlapItself(Value Memref, Pairs &Seen) const {
  for (;;) {
    if (makesOverlap(Memref))
      return true;
    auto View = Memref.getDefiningOp<ViewLikeOpInterface>();
    if (!View)
      break;
    Memref = View.getViewSource();
  }
  const auto Type = dyn_cast<MemRefType>(Memref.getType());
  if ((Type && hasKnownStrides(Type)) || !Seen.insert({Memref, Memref}).second)
    return false;
  unsigned At = 0;
  if (FunctionOpInterface Function = functionOf(Memref, At))
    return someCall(Function,
                    [&](OperandRange Given) { return mayOverlapItself(Given[At], Seen); });
  return SomeOverlap && !isNew(Memref) && !Memref.getDefiningOp<memref::GetGlobalOp>();
}

bool Memory::mayOverlap(Value One, Value Other, Pairs &Seen) const {
  One = root(One);
  Other = root(Other);
  if (One == Other)
    return true;
  if (!Seen.insert({One, Other}).second)
    return false; // known already, or being found out
  auto GlobalOne = One.getDefiningOp<memref::GetGlobalOp>();
  auto GlobalOther = Other.getDefiningOp<memref::GetGlobalOp>();
  unsigned AtOne = 0, AtOther = 0;
  FunctionOpInterface FunctionOne = functionOf(One, AtOne);
  FunctionOpInterface FunctionOther = functionOf(Other, AtOther);
  if (GlobalOne && GlobalOther)
    return GlobalOne.getName() == GlobalOther.getName();
  if ((isNew(One) && (GlobalOther || FunctionOther)) ||
      (isNew(Other) && (GlobalOne || FunctionOne)))
    return false;
  // What a function is called with doesn't overlap, unless the module says otherwise.
  if (FunctionOne && FunctionOne == FunctionOther)
    return someCall(FunctionOne, [&](OperandRange Given) {
      return mayOverlap(Given[AtOne], Given[AtOther], Seen);
    });
  if (GlobalOne && FunctionOther)
    return someCall(FunctionOther,
                    [&](OperandRange Given) { return mayOverlap(One, Given[AtOther], Seen); });
  if (GlobalOther && FunctionOne)
    return someCall(FunctionOne,
                    [&](OperandRange Given) { return mayOverlap(Given[AtOne], Other, Seen); });
  return isAwaited(One) || isAwaited(Other) || !LocalAliasAnalysis().alias(One, Other).isNo();
}

bool Memory::outputsOverlap(linalg::LinalgOp Op) const {
  for (OpOperand &Output : Op.getDpsInitsMutable()) {
    if (!isa<MemRefType>(Output.get().getType()))
      continue;
    Pairs Alone;
    if (mayOverlapItself(Output.get(), Alone))
      return true;
    for (OpOperand &Other : Op->getOpOperands()) {
      Pairs Seen;
      if (&Other != &Output && isa<MemRefType>(Other.get().getType()) &&
          mayOverlap(Output.get(), Other.get(), Seen))
        return true;
    }
  }
  return false;
}

bool hasSchedule(Operation *Module) {
  const WalkResult Walked = Module->walk([](Operation *Op) {
    return Op->getName().getDialectNamespace() == "transform" ? WalkResult::interrupt()
                                                              : WalkResult::advance();
  });
  return Walked.wasInterrupted();
}

std::string refusal(linalg::LinalgOp Op, const Memory &Shared) {
  if (!Op.hasPureBufferSemantics() && !Op.hasPureTensorSemantics())
    return "it has both tensors and memrefs";
  for (const Value Operand : Op->getOperands()) {
    if (std::string Why = refusalOfType(Operand); !Why.empty())
      return Why;
    if (Operand.getDefiningOp() == Op.getOperation())
      return "it uses its own result";
  }
  if (Op.getNumLoops() > MaxLoops)
    return "it has more than " + std::to_string(MaxLoops) + " loops";
  for (const int64_t Trips : Op.getStaticLoopRanges()) {
    if (ShapedType::isDynamic(Trips))
      return "the length of a loop is not known";
    if (Trips == 0)
      return "it has nothing to do";
  }
  for (OpOperand &Operand : Op->getOpOperands()) {
    const AffineMap Map = Op.getMatchingIndexingMap(&Operand);
    if (Map.getNumSymbols() || !llvm::all_of(Map.getResults(), isLinear))
      return "an operand is not accessed by sums of loops";
    if (Op.isDpsInit(&Operand))
      if (std::string Why = refusalOfOutput(Op, Map); !Why.empty())
        return Why;
  }
  if (const auto Call = Op->getAttrOfType<StringAttr>("library_call"); Call && !Call.empty())
    return "a library function computes it, " + Call.str();
  if (std::string Why = refusalOfBody(Op); !Why.empty())
    return Why;
  for (Operation *Around = Op->getParentOp(); Around; Around = Around->getParentOp()) {
    const StringRef Dialect = Around->getName().getDialectNamespace();
    if (Dialect == "gpu" || Dialect == "spirv" || Dialect == "linalg")
      return ("it is in " + Around->getName().getStringRef()).str();
  }
  if (Shared.outputsOverlap(Op))
    return "an output may also be another operand";
  return "";
}

namespace {

enum class Combines { Never, Exactly, Rounding };

template <typename T> bool hasFlags(Operation *Op) {
  auto Arithmetic = dyn_cast<T>(Op);
  return Arithmetic && Arithmetic.getOverflowFlags() != arith::IntegerOverflowFlags::none;
}

/// The way in which the operation combines this operand, the old value, with the others.
Combines combines(Operation *Op, unsigned Operand) {
  // In another order, sums may overflow that are promised not to.
  if (hasFlags<arith::AddIOp>(Op) || hasFlags<arith::MulIOp>(Op) || hasFlags<arith::SubIOp>(Op))
    return Combines::Never;
  if (isa<arith::AddIOp, arith::MulIOp, arith::AndIOp, arith::OrIOp, arith::XOrIOp, arith::MaxSIOp,
          arith::MinSIOp, arith::MaxUIOp, arith::MinUIOp, arith::MaximumFOp, arith::MinimumFOp>(
          Op) ||
      (isa<arith::SubIOp>(Op) && Operand == 0))
    return Combines::Exactly;
  if (isa<arith::AddFOp, arith::MulFOp, arith::MaxNumFOp, arith::MinNumFOp>(Op) ||
      (isa<arith::SubFOp>(Op) && Operand == 0))
    return Combines::Rounding;
  return Combines::Never;
}

/// The operation's kind. Subtractions are of the kind of additions.
OperationName kindOf(Operation *Op) {
  MLIRContext *const Context = Op->getContext();
  if (isa<arith::SubIOp>(Op))
    return OperationName(arith::AddIOp::getOperationName(), Context);
  if (isa<arith::SubFOp>(Op))
    return OperationName(arith::AddFOp::getOperationName(), Context);
  return Op->getName();
}

/// The way in which an output's elements come from their old values, by operations of one kind.
Combines combinesOutput(Block &Body, OpOperand &Output, unsigned Number) {
  Value Sum = Body.getArgument(Output.getOperandNumber());
  Combines Last = Combines::Exactly;
  std::optional<OperationName> Kind;
  while (Sum.hasOneUse()) {
    OpOperand &Use = *Sum.use_begin();
    Operation *const User = Use.getOwner();
    if (User->getBlock() != &Body)
      return Combines::Never;
    if (User == Body.getTerminator())
      return Use.getOperandNumber() == Number && Kind ? Last : Combines::Never;
    const Combines How = combines(User, Use.getOperandNumber());
    if (How == Combines::Never || (Kind && *Kind != kindOf(User)))
      return Combines::Never;
    Last = How;
    Kind = kindOf(User);
    Sum = User->getResult(0);
  }
  return Combines::Never;
}

} // namespace

bool takesAnyOrder(linalg::LinalgOp Op, bool FloatSums) {
  for (const auto [Number, Output] : llvm::enumerate(Op.getDpsInitsMutable())) {
    const Combines How = combinesOutput(*Op.getBlock(), Output, Number);
    if (How == Combines::Never || (How == Combines::Rounding && !FloatSums))
      return false;
  }
  return true;
}

bool keepsOrder(linalg::LinalgOp Op, ArrayRef<int64_t> Sizes) {
  bool Divided = false; // a loop of more than one iteration, in tiles or before them
  for (const auto [Kind, Trips, Size] :
       llvm::zip_equal(Op.getIteratorTypesArray(), Op.getStaticLoopRanges(), Sizes)) {
    if (Kind == utils::IteratorType::parallel || Trips == 1)
      continue;
    if (Divided && Size < Trips)
      return false;
    Divided |= Size > 1;
  }
  return true;
}

std::string refusesVectors(linalg::LinalgOp Op) {
  for (const Value Operand : Op->getOperands()) {
    const Type Element = getElementTypeOrSelf(Operand);
    if (Element.isF16() || Element.isBF16() || Element.isF32() || Element.isF64())
      continue;
    // In memory, vectors of other types are laid out differently from as many elements.
    if (!Element.isInteger(8) && !Element.isInteger(16) && !Element.isInteger(32) &&
        !Element.isInteger(64)) {
      std::string Text;
      llvm::raw_string_ostream(Text) << Element;
      return "its elements are of " + Text;
    }
  }
  return "";
}

} // namespace mlbridge::tiling
