// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "code_size.h"

#include "llvm/IR/LegacyPassManager.h"
#include "llvm/MC/TargetRegistry.h"
#include "llvm/Object/ObjectFile.h"
#include "llvm/Support/SmallVectorMemoryBuffer.h"
#include "llvm/Target/TargetMachine.h"
#include "llvm/Transforms/Utils/Cloning.h"

using namespace llvm;

Expected<uint64_t> mlbridge::phase_ordering::codeSize(const Module &M) {
  std::string Why;
  const Triple &For = M.getTargetTriple();
  const Target *T = TargetRegistry::lookupTarget(For, Why);
  if (!T)
    return createStringError(Why);
  TargetOptions Options;
  Options.FunctionSections = false;
  const std::unique_ptr<TargetMachine> TM(
      T->createTargetMachine(For, "", "", Options, Reloc::PIC_));
  if (!TM)
    return createStringError("no code generator for " + For.str());
  const std::unique_ptr<Module> Copy = CloneModule(M);
  SmallVector<char, 0> Bytes;
  raw_svector_ostream Out(Bytes);
  legacy::PassManager Passes;
  if (TM->addPassesToEmitFile(Passes, Out, nullptr, CodeGenFileType::ObjectFile))
    return createStringError("LLVM cannot write object files for " + For.str());
  Passes.run(*Copy);
  const SmallVectorMemoryBuffer Buffer(std::move(Bytes), /*RequiresNullTerminator=*/false);
  Expected<std::unique_ptr<object::ObjectFile>> Made =
      object::ObjectFile::createObjectFile(Buffer.getMemBufferRef());
  if (!Made)
    return Made.takeError();
  uint64_t Size = 0;
  for (const object::SectionRef &Section : (*Made)->sections())
    if (Section.isText())
      Size += Section.getSize();
  return Size;
}
