// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "served_environment.h"

#include <mlbridge/model.h>

#include "llvm/IR/LegacyPassManager.h"
#include "llvm/IRReader/IRReader.h"
#include "llvm/MC/TargetRegistry.h"
#include "llvm/Object/ObjectFile.h"
#include "llvm/Support/SmallVectorMemoryBuffer.h"
#include "llvm/Support/SourceMgr.h"
#include "llvm/Target/TargetMachine.h"
#include "llvm/Transforms/Utils/Cloning.h"

using namespace llvm;

namespace mlbridge::phase_ordering {

/// Bytes of the executable sections of the object that code generation makes of a copy of the
/// module, for the module's own target. Errors: Unsupported (no such target in this process).
static mlbridge::Expected<uint64_t> codeSize(const Module &M) {
  std::string Why;
  const Triple &For = M.getTargetTriple();
  const Target *T = TargetRegistry::lookupTarget(For, Why);
  if (!T)
    return Status(Code::Unsupported, "code size: " + Why);
  TargetOptions Options;
  Options.FunctionSections = false;
  const std::unique_ptr<TargetMachine> TM(
      T->createTargetMachine(For, "", "", Options, Reloc::PIC_));
  if (!TM)
    return Status(Code::Unsupported, "code size: no code generator for " + For.str());
  const std::unique_ptr<Module> Copy = CloneModule(M);
  SmallVector<char, 0> Bytes;
  raw_svector_ostream Out(Bytes);
  legacy::PassManager Passes;
  if (TM->addPassesToEmitFile(Passes, Out, nullptr, CodeGenFileType::ObjectFile))
    return Status(Code::Unsupported, "code size: no objects are made for " + For.str());
  Passes.run(*Copy);
  const SmallVectorMemoryBuffer Buffer(std::move(Bytes), /*RequiresNullTerminator=*/false);
  llvm::Expected<std::unique_ptr<object::ObjectFile>> Made =
      object::ObjectFile::createObjectFile(Buffer.getMemBufferRef());
  if (!Made)
    return Status(Code::Internal, "code size: " + toString(Made.takeError()));
  uint64_t Size = 0;
  for (const object::SectionRef &Section : (*Made)->sections())
    if (Section.isText())
      Size += Section.getSize();
  return Size;
}

ServedEnvironment::ServedEnvironment(Module &Host, ModuleAnalysisManager &MAM, uint32_t MaxSteps)
    : Host(Host), MAM(MAM), MaxSteps(MaxSteps) {
  useModule(Host);
  Sig = Inner->signature();
  for (const char *Name : {"code_bytes", "oz_code_bytes"})
    Sig.inputs.push_back(TensorSpec::of<int64_t>(Name, {1}));
}

Metadata ServedEnvironment::metadata() const {
  Metadata Values;
  Values["phase-ordering.observation"] = Features::Version.str();
  if (const ActionList *Actions = Inner->actions())
    Values["phase-ordering.actions"] = Actions->json();
  return Values;
}

void ServedEnvironment::useModule(Module &M) {
  Inner.reset(); // its copy belongs to what the analyses know
  Inner = std::make_unique<PhaseOrderingEnvironment>(M, MAM, MaxSteps);
  Inner->signatureFor(Model());
}

Status ServedEnvironment::load(const std::string &From) {
  SMDiagnostic Wrong;
  std::unique_ptr<Module> Read = parseIRFile(From, Wrong, Host.getContext());
  if (!Read) {
    std::string Text;
    raw_string_ostream Out(Text);
    Wrong.print(nullptr, Out, /*ShowColors=*/false);
    return Status(Code::NotFound, "module " + From + ": " + StringRef(Text).rtrim().str());
  }
  if (Read->getTargetTriple() != Host.getTargetTriple() ||
      Read->getDataLayout() != Host.getDataLayout())
    return Status(Code::Mismatch, "module " + From + " is for " + Read->getTargetTriple().str() +
                                      ", the compiler was started for " +
                                      Host.getTargetTriple().str());
  Inner.reset();
  Loaded = std::move(Read);
  Path = From;
  OzSize.reset();
  return Status();
}

Status ServedEnvironment::reset(Observation &First) {
  if (!context().empty() && context() != Path)
    if (Status S = load(context()); !S)
      return S;
  Module &M = Loaded ? *Loaded : Host;
  useModule(M);
  if (const std::string Why = untouchable(M); !Why.empty())
    return Status(Code::InvalidArgument, "module " + M.getModuleIdentifier() + ": " + Why);
  if (!OzSize) {
    WorkingCopy Copy(M, MAM);
    PassBuilder Builder;
    if (Error E = runPipeline(Builder, "default<Oz>", Copy.module(), MAM))
      return Status(Code::Internal, toString(std::move(E)));
    const mlbridge::Expected<uint64_t> Bytes = codeSize(Copy.module());
    if (!Bytes)
      return Bytes.status();
    OzSize = int64_t(*Bytes);
  }
  if (Status S = Inner->reset(First); !S)
    return S;
  const Status Measured = measure(First);
  FirstSize = Size;
  return Measured;
}

Status ServedEnvironment::measure(Observation &To) {
  const mlbridge::Expected<uint64_t> Bytes = codeSize(Inner->module());
  if (!Bytes)
    return Bytes.status();
  Size = int64_t(*Bytes);
  if (Status S = To.set("code_bytes", Size); !S)
    return S;
  return To.set("oz_code_bytes", *OzSize);
}

Status ServedEnvironment::step(const Action &Chosen, Observation &Next) {
  if (Status S = Inner->step(Chosen, Next); !S)
    return S;
  if (Inner->isDone() && !Inner->isTruncated()) { // stop changes nothing
    setReward(0);
    setDone();
    return Status();
  }
  const int64_t Before = Size;
  if (Status S = measure(Next); !S)
    return S;
  setReward(FirstSize == 0 ? 0 : double(Before - Size) / double(FirstSize));
  if (Inner->isTruncated())
    setTruncated();
  return Status();
}

} // namespace mlbridge::phase_ordering
