// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "eligible.h"

#include "llvm/IR/InstIterator.h"
#include "llvm/IR/Instructions.h"
#include "llvm/IR/IntrinsicInst.h"

using namespace llvm;

namespace mlbridge::hotness {

StringRef whyLeftAlone(const Module &M, bool HasProfile) {
  if (HasProfile || M.getProfileSummary(false) || M.getProfileSummary(true) ||
      any_of(M, [](const llvm::Function &F) { return F.hasProfileData(); }))
    return "LLVM uses a profile, or counts for one";
  // What clang's own counters and those of gcov have become here.
  for (const GlobalVariable &Variable : M.globals())
    for (const StringRef Prefix : {"__profc_", "__profd_", "__llvm_profile_", "__llvm_gcov"})
      if (Variable.getName().starts_with(Prefix))
        return "it is instrumented for a profile or for coverage";
  return "";
}

Eligible::Eligible(const Module &M) {
  for (const GlobalIFunc &Choice : M.ifuncs()) {
    const llvm::Function *Resolver = Choice.getResolverFunction();
    if (!Resolver)
      continue;
    Resolved.insert(Resolver);
    for (const Instruction &I : instructions(*Resolver))
      for (const Value *Operand : I.operands())
        if (const auto *Version = dyn_cast<llvm::Function>(Operand->stripPointerCasts()))
          Resolved.insert(Version);
  }
}

/// True if the user said how a loop is compiled. That it isn't unrolled, clang says of every loop
/// at -O1, and it suits size.
static bool hasLoopPragma(const llvm::Function &F) {
  for (const BasicBlock &Block : F) {
    const Instruction *End = Block.getTerminator();
    const MDNode *Loop = End ? End->getMetadata(LLVMContext::MD_loop) : nullptr;
    if (!Loop)
      continue;
    for (const MDOperand &Each : Loop->operands()) {
      const auto *Property = dyn_cast_or_null<MDNode>(Each.get());
      const auto *Name = Property && Property->getNumOperands()
                             ? dyn_cast_or_null<MDString>(Property->getOperand(0).get())
                             : nullptr;
      if (Name && Name->getString().starts_with("llvm.loop.") &&
          Name->getString() != "llvm.loop.mustprogress" &&
          Name->getString() != "llvm.loop.unroll.disable")
        return true;
    }
  }
  return false;
}

StringRef Eligible::whyNot(const llvm::Function &F) const {
  static constexpr std::pair<Attribute::AttrKind, StringLiteral> Marks[] = {
      {Attribute::Hot, "marked hot"},
      {Attribute::Cold, "marked cold"},
      {Attribute::AlwaysInline, "marked always_inline"},
      {Attribute::NoInline, "marked noinline"},
      {Attribute::OptimizeNone, "marked optnone"},
      {Attribute::Naked, "naked"},
      {Attribute::SanitizeAddress, "instrumented by a sanitizer"},
      {Attribute::SanitizeHWAddress, "instrumented by a sanitizer"},
      {Attribute::SanitizeMemory, "instrumented by a sanitizer"},
      {Attribute::SanitizeThread, "instrumented by a sanitizer"},
      {Attribute::SanitizeMemTag, "instrumented by a sanitizer"},
  };
  for (const auto &[Mark, Why] : Marks)
    if (F.hasFnAttribute(Mark))
      return Why;
  if (F.isPresplitCoroutine())
    return "a coroutine";
  if (Resolved.contains(&F))
    return "one of several versions, of which the loader takes one";
  if (hasLoopPragma(F))
    return "one of its loops has a pragma";
  return "";
}

} // namespace mlbridge::hotness
