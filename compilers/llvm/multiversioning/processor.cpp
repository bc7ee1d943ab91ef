// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What cpuid and xgetbv answer: Intel 64 and IA-32 Architectures Software Developer's Manual,
// volume 2A, CPUID, and AMD64 Architecture Programmer's Manual, volume 3, appendix E.
#include "processor.h"

#include "llvm/IR/InlineAsm.h"
#include "llvm/Transforms/Utils/ModuleUtils.h"

using namespace llvm;

namespace mlbridge::multiversioning {

namespace {

constexpr const char *Name = "mlbridge_has_x86_64_v3";
constexpr const char *AskName = "mlbridge_ask_x86_64_v3";
enum State : uint8_t { Unknown, No, Yes };
enum Register : unsigned { EAX, EBX, ECX, EDX };

// SSE3, SSSE3, SSE4.1, SSE4.2, MOVBE, POPCNT, OSXSAVE, AVX
constexpr uint32_t BasicECX =
    1U << 0 | 1U << 9 | 1U << 19 | 1U << 20 | 1U << 22 | 1U << 23 | 1U << 27 | 1U << 28;
constexpr uint32_t ExtendedEBX = 1U << 3 | 1U << 5 | 1U << 8; // BMI1, AVX2, BMI2
constexpr uint32_t AmdECX = 1U << 5;                          // LZCNT
constexpr uint32_t SavedEAX = 1U << 1 | 1U << 2;              // XMM and YMM

class Asking {
public:
  Asking(llvm::Function &Ask, GlobalVariable &Known)
      : Code(BasicBlock::Create(Ask.getContext(), "", &Ask)), Ask(Ask), Known(Known) {}

  void emit() {
    BasicBlock *const Done = block(), *const Without = block();
    IRBuilder<>(Done).CreateRetVoid();
    IRBuilder<> No(Without);
    No.CreateStore(No.getInt8(State::No), &Known);
    No.CreateBr(Done);
    // The first of several constructors has asked.
    Value *const Was = Code.CreateLoad(Code.getInt8Ty(), &Known);
    go(Code.CreateICmpEQ(Was, Code.getInt8(State::Unknown)), Done);
    atLeast(cpuid(0), 7, Without);
    allOf(cpuid(1), ECX, BasicECX, Without);
    allOf(cpuid(7), EBX, ExtendedEBX, Without);
    atLeast(cpuid(0x80000000), 0x80000001, Without);
    allOf(cpuid(0x80000001), ECX, AmdECX, Without);
    Type *const Int = Code.getInt32Ty();
    auto *const Pair = StructType::get(Int, Int);
    InlineAsm *const Xgetbv =
        InlineAsm::get(FunctionType::get(Pair, {Int}, false), "xgetbv", "={eax},={edx},{ecx}",
                       /*hasSideEffects=*/true);
    allOf(Code.CreateCall(Xgetbv, {Code.getInt32(0)}), EAX, SavedEAX, Without);
    Code.CreateStore(Code.getInt8(State::Yes), &Known);
    Code.CreateBr(Done);
  }

private:
  BasicBlock *block() { return BasicBlock::Create(Ask.getContext(), "", &Ask); }

  /// Go on, in a block of its own, if it is true.
  void go(Value *IsTrue, BasicBlock *Else) {
    BasicBlock *const Next = block();
    Code.CreateCondBr(IsTrue, Next, Else);
    Code.SetInsertPoint(Next);
  }

  Value *cpuid(uint32_t Leaf) {
    Type *const Int = Code.getInt32Ty();
    auto *const Four = StructType::get(Int, Int, Int, Int);
    InlineAsm *const Cpuid = InlineAsm::get(FunctionType::get(Four, {Int, Int}, false), "cpuid",
                                            "={eax},={ebx},={ecx},={edx},{eax},{ecx}",
                                            /*hasSideEffects=*/true);
    return Code.CreateCall(Cpuid, {Code.getInt32(Leaf), Code.getInt32(0)});
  }

  void atLeast(Value *Answer, uint32_t Least, BasicBlock *Else) {
    go(Code.CreateICmpUGE(Code.CreateExtractValue(Answer, EAX), Code.getInt32(Least)), Else);
  }

  void allOf(Value *Answer, Register In, uint32_t Bits, BasicBlock *Else) {
    Value *const Wanted = Code.getInt32(Bits);
    go(Code.CreateICmpEQ(Code.CreateAnd(Code.CreateExtractValue(Answer, In), Wanted), Wanted),
       Else);
  }

  IRBuilder<> Code;
  llvm::Function &Ask;
  GlobalVariable &Known;
};

} // namespace

Processor::Processor(Module &M) {
  LLVMContext &Context = M.getContext();
  Type *const Byte = Type::getInt8Ty(Context);
  Known = new GlobalVariable(M, Byte, /*isConstant=*/false, GlobalValue::LinkOnceODRLinkage,
                             ConstantInt::get(Byte, State::Unknown), Name);
  Known->setVisibility(GlobalValue::HiddenVisibility);
  Known->setDSOLocal(true);
  GlobalValue::SanitizerMetadata Unchecked; // no object of the program's
  Unchecked.NoAddress = Unchecked.NoHWAddress = true;
  Known->setSanitizerMetadata(Unchecked);
  auto *const Ask = llvm::Function::Create(FunctionType::get(Type::getVoidTy(Context), false),
                                           GlobalValue::LinkOnceODRLinkage, AskName, M);
  Ask->setVisibility(GlobalValue::HiddenVisibility);
  Ask->setDSOLocal(true);
  // The linker keeps one of the variable, the function and its entry among the constructors; in
  // ThinLTO one of each file.
  Comdat *const Group = M.getOrInsertComdat(Name);
  Known->setComdat(Group);
  Ask->setComdat(Group);
  Ask->addFnAttr(Attribute::NoUnwind);
  Ask->addFnAttr(Attribute::MinSize);
  Ask->addFnAttr(Attribute::OptimizeForSize);
  Ask->addFnAttr(Attribute::Cold);
  Ask->addFnAttr(Attribute::NoInline);
  Asking(*Ask, *Known).emit();
  appendToGlobalCtors(M, Ask, /*Priority=*/1, Known);
}

Value *Processor::has(IRBuilder<> &Code) const {
  return Code.CreateICmpEQ(Code.CreateLoad(Code.getInt8Ty(), Known), Code.getInt8(State::Yes));
}

} // namespace mlbridge::multiversioning
