// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "served_environment.h"

#include "code_size.h"

#include "versions/target_triple.h"

#include <mlbridge/server.h>

#include "llvm/IRReader/IRReader.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/SourceMgr.h"
#include "llvm/Support/xxhash.h"

using namespace llvm;

namespace mlbridge::phase_ordering {

static mlbridge::Expected<uint64_t> codeBytes(const Module &M) {
  llvm::Expected<uint64_t> Bytes = codeSize(M);
  if (!Bytes)
    return Status(Code::Unsupported, "code size: " + toString(Bytes.takeError()));
  return *Bytes;
}

ServedEnvironment::ServedEnvironment(Module &Host, ModuleAnalysisManager &MAM, Options Given,
                                     std::string ActionsJson, Observer Observes)
    : Host(Host), MAM(MAM), Given(std::move(Given)), ActionsJson(std::move(ActionsJson)),
      Observes(std::move(Observes)) {
  useModule(Host);
  Sig = Inner->signature();
  for (const char *Name : {"code_bytes", "oz_code_bytes"})
    Sig.inputs.push_back(TensorSpec::of<int64_t>(Name, {1}));
}

Metadata ServedEnvironment::metadata() const {
  Metadata Values;
  Values["phase-ordering.observation"] = Observes.version().str();
  if (const embeddings::Vocabulary *V = Observes.vocabulary())
    Values["phase-ordering.vocabulary"] = V->digest();
  if (Given.KeepStates)
    Values["mlbridge.fork"] = "1";
  if (const ActionList *Actions = Inner->actions())
    Values["phase-ordering.actions"] = Actions->json();
  return Values;
}

void ServedEnvironment::useModule(Module &M) {
  Inner.reset(); // its copy belongs to what the analyses know
  Inner = std::make_unique<PhaseOrderingEnvironment>(M, MAM, Given.MaxSteps);
  Inner->use(ActionsJson, Observes);
  if (Given.KeepStates)
    Inner->keepStates();
}

Status ServedEnvironment::load(const std::string &From) {
  ErrorOr<std::unique_ptr<MemoryBuffer>> Bytes = MemoryBuffer::getFile(From);
  if (!Bytes)
    return Status(Code::NotFound, "module " + From + ": " + Bytes.getError().message());
  SMDiagnostic Problem;
  std::unique_ptr<Module> Read = parseIR(**Bytes, Problem, Host.getContext());
  if (!Read) {
    std::string Text;
    raw_string_ostream Out(Text);
    Problem.print(nullptr, Out, /*ShowColors=*/false);
    return Status(Code::NotFound, "module " + From + ": " + StringRef(Text).rtrim().str());
  }
  if (Read->getTargetTriple() != Host.getTargetTriple())
    return Status(Code::Mismatch, "module " + From + " is for " + versions::tripleOf(*Read).str() +
                                      ", the compiler was started for " +
                                      versions::tripleOf(Host).str());
  if (Read->getDataLayoutStr().empty()) // as in a test written by hand: its target's
    Read->setDataLayout(Host.getDataLayout());
  if (Read->getDataLayout() != Host.getDataLayout())
    return Status(Code::Mismatch,
                  "module " + From + " has the data layout '" + Read->getDataLayoutStr() +
                      "', the compiler was started for '" + Host.getDataLayoutStr() + "'");
  Inner.reset();
  Loaded = std::move(Read);
  Path = From;
  Current = &Sizes[xxh3_64bits((*Bytes)->getBuffer())];
  return Status();
}

Status ServedEnvironment::fork(StringRef Steps, Observation &First) {
  size_t At = 0;
  const size_t End = Inner->states();
  if (Steps.getAsInteger(10, At) || At >= End)
    return Status(Code::InvalidArgument, "fork:" + Steps.str() +
                                             ": the last episode can be resumed after less than " +
                                             std::to_string(End) + " steps");
  Inner->resume(At, First);
  return Given.RewardsLast ? tell(NotMeasured, First) : measure(First);
}

Status ServedEnvironment::reset(Observation &First) {
  if (StringRef Steps = unit(); Given.KeepStates && Steps.consume_front("fork:"))
    return fork(Steps, First);
  if (!unit().empty() && unit() != Path)
    if (Status S = load(unit()); !S)
      return S;
  Module &M = Loaded ? *Loaded : Host;
  useModule(M);
  if (const std::string Why = untouchable(M); !Why.empty())
    return Status(Code::InvalidArgument, "module " + M.getModuleIdentifier() + ": " + Why);
  if (Current->Oz < 0) {
    WorkingCopy Copy(M, MAM);
    PipelineTuningOptions AsClang; // the text "default<Oz>" has neither vectorizer
    AsClang.LoopVectorization = false;
    AsClang.SLPVectorization = true;
    PassBuilder Builder(nullptr, AsClang);
    Builder.buildPerModuleDefaultPipeline(OptimizationLevel::Oz).run(Copy.module(), MAM);
    const mlbridge::Expected<uint64_t> Bytes = codeBytes(Copy.module());
    if (!Bytes)
      return Bytes.status();
    Current->Oz = int64_t(*Bytes);
  }
  if (Status S = Inner->reset(First); !S)
    return S;
  if (Current->First >= 0 && Given.StateFile.empty()) {
    Size = Current->First;
    return tell(Size, First);
  }
  if (Status S = measure(First); !S)
    return S;
  Current->First = Size;
  return Status();
}

Status ServedEnvironment::measure(Observation &To) {
  if (!Given.StateFile.empty())
    if (Error E = writeModule(Inner->module(), Given.StateFile))
      return Status(Code::Internal, toString(std::move(E)));
  const mlbridge::Expected<uint64_t> Bytes = codeBytes(Inner->module());
  if (!Bytes)
    return Bytes.status();
  Size = int64_t(*Bytes);
  return tell(Size, To);
}

Status ServedEnvironment::tell(int64_t Bytes, Observation &To) const {
  if (Status S = To.set("code_bytes", Bytes); !S)
    return S;
  return To.set("oz_code_bytes", Current->Oz);
}

Status ServedEnvironment::step(const Action &Chosen, Observation &Next) {
  if (Status S = Inner->step(Chosen, Next); !S)
    return S;
  // Not isDone(): a resumed episode would still be over.
  if (Inner->outcome() == Outcome::Stopped)
    setDone();
  const bool IsOver = Inner->outcome() != Outcome::Open;
  const bool Stops = Inner->decisions().back().Action == Inner->actions()->size();
  setReward(0);
  if (Stops && !Given.RewardsLast) // it changes nothing
    return Status();
  if (Given.RewardsLast && !IsOver)
    return tell(NotMeasured, Next);
  const int64_t Before = Given.RewardsLast ? Current->First : Size;
  if (Status S = measure(Next); !S)
    return S;
  if (Current->First != 0)
    setReward(double(Before - Size) / double(Current->First));
  if (Inner->outcome() == Outcome::LimitReached)
    setTruncated();
  return Status();
}

Status serveEpisodes(const Options &Given, Module &M, ModuleAnalysisManager &MAM) {
  std::string ActionsJson = ActionList::builtin().str();
  if (!Given.Actions.empty()) {
    ErrorOr<std::unique_ptr<MemoryBuffer>> Read = MemoryBuffer::getFile(Given.Actions);
    if (!Read)
      return Status(Code::NotFound,
                    "-phase-ordering-actions=" + Given.Actions + ": " + Read.getError().message());
    ActionsJson = (*Read)->getBuffer().str();
  }
  mlbridge::Expected<Observer> Observes = Observer::make(*Given.Observation, Given.Vocabulary);
  if (!Observes)
    return Observes.status();
  ServedEnvironment Environment(M, MAM, Given, std::move(ActionsJson), std::move(*Observes));
  if (!Environment.status())
    return Environment.status();
  ServerOptions Served;
  Served.signature = Environment.signature();
  Served.metadata = Environment.metadata();
  Served.environment = true;
  mlbridge::Expected<Server> At = Server::listen(Given.Model, std::move(Served));
  if (!At)
    return At.status();
  return mlbridge::serve(Environment, *At).status;
}

} // namespace mlbridge::phase_ordering
