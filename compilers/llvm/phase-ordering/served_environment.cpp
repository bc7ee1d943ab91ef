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
  return Status::ok();
}

Status ServedEnvironment::reset(Observation &First) {
  if (!context().empty() && context() != Path)
    if (Status S = load(context()); !S)
      return S;
  useModule(Loaded ? *Loaded : Host);
  if (Status S = Inner->reset(First); !S)
    return S;
  const mlbridge::Expected<uint64_t> Size = codeSize(Inner->module());
  if (!Size)
    return Size.status();
  FirstSize = LastSize = double(*Size);
  return Status::ok();
}

Status ServedEnvironment::step(const Action &Chosen, Observation &Next) {
  if (Status S = Inner->step(Chosen, Next); !S)
    return S;
  const mlbridge::Expected<uint64_t> Size = codeSize(Inner->module());
  if (!Size)
    return Size.status();
  setReward(FirstSize == 0 ? 0 : (LastSize - double(*Size)) / FirstSize);
  LastSize = double(*Size);
  if (Inner->isDone())
    setDone();
  return Status::ok();
}

} // namespace mlbridge::phase_ordering
