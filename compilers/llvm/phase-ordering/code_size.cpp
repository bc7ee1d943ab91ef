// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "code_size.h"

#include "versions/clone_module.h"
#include "versions/target_triple.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/Analysis/TargetLibraryInfo.h"
#include "llvm/Bitcode/BitcodeWriter.h"
#include "llvm/IR/DebugInfoMetadata.h"
#include "llvm/IR/LegacyPassManager.h"
#include "llvm/MC/TargetRegistry.h"
#include "llvm/Object/ObjectFile.h"
#include "llvm/Support/Format.h"
#include "llvm/Support/SmallVectorMemoryBuffer.h"
#include "llvm/Target/TargetMachine.h"

using namespace llvm;

namespace mlbridge::phase_ordering {

static llvm::Expected<std::unique_ptr<TargetMachine>> targetOf(const Module &M) {
  std::string Why;
  const Triple For = versions::tripleOf(M);
  const Target *T = TargetRegistry::lookupTarget(versions::given(For), Why);
  if (!T)
    return createStringError(Why);
  TargetOptions Options;
  Options.FunctionSections = false;
  Options.MCOptions.AsmVerbose = true; // comments say where functions begin
  std::unique_ptr<TargetMachine> TM(
      T->createTargetMachine(versions::given(For), "", "", Options, Reloc::PIC_));
  if (!TM)
    return createStringError("no code generator for " + For.str());
  return TM;
}

static Error generate(Module &M, TargetMachine &TM, CodeGenFileType Kind, raw_pwrite_stream &Out) {
  legacy::PassManager Passes;
  Passes.add(new TargetLibraryInfoWrapperPass(versions::tripleOf(M)));
  if (TM.addPassesToEmitFile(Passes, Out, nullptr, Kind))
    return createStringError("LLVM cannot write such files for " + versions::tripleOf(M).str());
  Passes.run(M);
  return Error::success();
}

/// Files that belong to the compilation itself.
static void forgetFiles(TargetMachine &TM) {
  TM.Options.StackUsageOutput.clear();
  TM.Options.MCOptions.AsSecureLogFile.clear();
}

/// A string of the assembler's.
static void printString(StringRef Text, raw_ostream &Out) {
  Out << '"';
  for (const char C : Text) {
    if (C == '"' || C == '\\')
      Out << '\\' << C;
    else if (isPrint(C))
      Out << C;
    else
      Out << format("\\%03o", uint8_t(C));
  }
  Out << '"';
}

/// For DWARF 5: the file of the first compile unit, which the assembler's line table begins with.
/// Otherwise it makes a table of version 4, without checksums, as LLVM prints no such file where a
/// module has several compile units.
static void printRootFile(const Module &M, raw_ostream &Out) {
  if (M.getDwarfVersion() < 5 || M.debug_compile_units().empty())
    return;
  const DIFile *File = (*M.debug_compile_units_begin())->getFile();
  Out << "\t.file\t0 ";
  printString(File->getDirectory(), Out);
  Out << ' ';
  printString(File->getFilename(), Out);
  if (const auto Sum = File->getChecksum(); Sum && Sum->Kind == DIFile::CSK_MD5)
    Out << " md5 0x" << Sum->Value;
  Out << '\n';
}

llvm::Expected<std::string> assemblyOf(Module &M, TargetMachine &TM) {
  forgetFiles(TM);
  SmallVector<char, 0> Text;
  raw_svector_ostream Out(Text);
  printRootFile(M, Out);
  if (Error E = generate(M, TM, CodeGenFileType::AssemblyFile, Out))
    return E;
  // Prologues that functions share (-homogeneous-prolog-epilog) are weak, and a shared library
  // would export them.
  for (const llvm::Function &F : M)
    if (F.getName().starts_with("OUTLINED_FUNCTION_") && F.hasLinkOnceODRLinkage())
      Out << "\t.hidden\t" << F.getName() << '\n';
  return Out.str().str();
}

llvm::Expected<uint64_t> measureCode(Module &M, TargetMachine *TM) {
  std::unique_ptr<TargetMachine> Own;
  if (!TM) {
    llvm::Expected<std::unique_ptr<TargetMachine>> Default = targetOf(M);
    if (!Default)
      return Default.takeError();
    Own = std::move(*Default);
    TM = Own.get();
  }
  forgetFiles(*TM);
  SmallVector<char, 0> Bytes;
  raw_svector_ostream Out(Bytes);
  if (Error E = generate(M, *TM, CodeGenFileType::ObjectFile, Out))
    return E;
  const SmallVectorMemoryBuffer Buffer(std::move(Bytes), /*RequiresNullTerminator=*/false);
  llvm::Expected<std::unique_ptr<object::ObjectFile>> Object =
      object::ObjectFile::createObjectFile(Buffer.getMemBufferRef());
  if (!Object)
    return Object.takeError();
  uint64_t Sum = 0;
  for (const object::SectionRef &Section : (*Object)->sections())
    if (Section.isText())
      Sum += Section.getSize();
  return Sum;
}

llvm::Expected<uint64_t> codeSize(const Module &M) {
  return measureCode(*versions::cloneModule(M), nullptr);
}

Error writeModule(const Module &M, StringRef Path) {
  SmallVector<char, 0> Bytes;
  raw_svector_ostream Out(Bytes);
  if (!Path.ends_with(".s")) {
    WriteBitcodeToFile(M, Out);
  } else {
    llvm::Expected<std::unique_ptr<TargetMachine>> TM = targetOf(M);
    if (!TM)
      return TM.takeError();
    if (Error E = generate(*versions::cloneModule(M), **TM, CodeGenFileType::AssemblyFile, Out))
      return E;
  }
  std::error_code Failed;
  raw_fd_ostream File(Path, Failed);
  if (!Failed) {
    File << Out.str();
    File.close();
    Failed = File.error();
    File.clear_error(); // or LLVM ends the process
  }
  return Failed ? createStringError(Path + ": " + Failed.message()) : Error::success();
}

} // namespace mlbridge::phase_ordering
