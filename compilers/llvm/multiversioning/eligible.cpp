// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "eligible.h"

#include "llvm/IR/InstIterator.h"
#include "llvm/IR/InstrTypes.h"
#include "llvm/IR/Instructions.h"

using namespace llvm;

namespace mlbridge::multiversioning {

namespace {

/// Vectors of more than 128 bits are passed in other registers by code for AVX.
bool isWide(const Type *T) {
  if (const auto *const Vector = dyn_cast<FixedVectorType>(T))
    return Vector->getPrimitiveSizeInBits().getFixedValue() > 128;
  return any_of(T->subtypes(), isWide);
}

bool passesWide(const CallBase &Call) {
  return isWide(Call.getType()) ||
         any_of(Call.args(), [](const Use &One) { return isWide(One->getType()); });
}

} // namespace

StringRef whyNot(const llvm::Function &F) {
  if (F.hasAvailableExternallyLinkage() || F.isInterposable())
    return "another definition may be used";
  for (const Attribute::AttrKind Kind :
       {Attribute::OptimizeNone, Attribute::Naked, Attribute::AlwaysInline,
        Attribute::NoImplicitFloat, Attribute::PresplitCoroutine, Attribute::ReturnsTwice})
    if (F.hasFnAttribute(Kind))
      return "its attributes";
  for (const StringRef Kind :
       {"thunk", "patchable-function", "patchable-function-entry", "split-stack"})
    if (F.hasFnAttribute(Kind))
      return "its attributes";
  if (F.hasComdat() && !F.isWeakForLinker())
    return "its comdat";
  if (F.isVarArg() || F.hasSection() || F.hasPrefixData() || F.hasPrologueData() || F.hasGC())
    return "what it is";
  const CallingConv::ID Convention = F.getCallingConv();
  if (Convention != CallingConv::C && Convention != CallingConv::Fast)
    return "its calling convention";
  const StringRef Processor = F.getFnAttribute("target-cpu").getValueAsString();
  const StringRef Features = F.getFnAttribute("target-features").getValueAsString();
  if (!(Processor.empty() || Processor == "x86-64") || Features.contains("avx") ||
      Features.contains("-"))
    return "its code is for a processor that the source or a flag states";
  if (isWide(F.getFunctionType()))
    return "it passes vectors";
  if (any_of(F.args(), [](const Argument &One) { return One.hasPassPointeeByValueCopyAttr(); }))
    return "an argument is in memory"; // which is where a tail call puts its own
  for (const BasicBlock &Block : F)
    if (Block.hasAddressTaken())
      return "the address of a label is taken";
  for (const Instruction &I : instructions(F)) {
    const auto *Call = dyn_cast<CallBase>(&I);
    if (!Call)
      continue;
    if (passesWide(*Call))
      return "it passes vectors";
    const CallingConv::ID Called = Call->getCallingConv();
    if (Called != CallingConv::C && Called != CallingConv::Fast && Called != CallingConv::Cold)
      return "a call of another convention"; // may keep registers: of AVX here, not there
    if (Call->cannotDuplicate() || Call->hasFnAttr(Attribute::ReturnsTwice) || Call->isInlineAsm())
      return "a call that can't be there twice";
    if (Call->isMustTailCall())
      return "a tail call";
  }
  return "";
}

} // namespace mlbridge::multiversioning
