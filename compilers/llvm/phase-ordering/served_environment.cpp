// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "served_environment.h"

#include "code_size.h"

#include <mlbridge/model.h>

#include "llvm/IRReader/IRReader.h"
#include "llvm/Support/SourceMgr.h"

using namespace llvm;

namespace mlbridge::phase_ordering {

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
    Values["phase-ordering.actions"] = Actions->toJson();
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
