// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Copies the module, observes the copy, checks the answer, runs the group.
#include "environment.h"

#include "middle_end.h"

#include <mlbridge/model.h>

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"

#include <cmath>
#include <numeric>

using namespace llvm;

namespace mlbridge::phase_ordering {

std::string untouchable(const Module &M) {
  bool HasFunction = false;
  for (const llvm::Function &F : M) {
    if (!F.isDeclaration() && !F.hasOptNone())
      return {};
    HasFunction |= !F.isDeclaration();
  }
  return HasFunction
             ? "every function is optnone, as clang -O0 makes them, and no pass changes such "
               "functions; compile with -Oz -Xclang -disable-llvm-passes instead"
             : "it has no function";
}

PhaseOrderingEnvironment::PhaseOrderingEnvironment(Module &M, ModuleAnalysisManager &MAM,
                                                   uint32_t MaxSteps, std::string Vocabulary)
    : M(M), MAM(MAM), GivenSteps(MaxSteps), VocabularyFile(std::move(Vocabulary)) {}

Status PhaseOrderingEnvironment::observerFor(const Model &Policy, Observer &To) const {
  const std::optional<std::string> Stated = Policy.metadata("phase-ordering.observation");
  const Signature *Known = Policy.modelSignature();
  const bool Embeds = Known && Known->findInput("embedding") >= 0;
  const ObservationKind *Kind =
      findObservation(Stated ? StringRef(*Stated) : StringRef(Embeds ? "ir2vec" : "counts"));
  if (!Kind || (Stated && *Stated != Kind->Version)) {
    const auto Versions =
        map_range(ObservationKinds, [](const ObservationKind &K) { return K.Version.str(); });
    return Status(Code::Mismatch, "phase-ordering.observation: this plugin offers '" +
                                      join(Versions, "', '") + "', the model wants '" + *Stated +
                                      "'");
  }
  mlbridge::Expected<Observer> Wanted = Observer::make(*Kind, VocabularyFile);
  if (!Wanted)
    return Wanted.status();
  To = std::move(*Wanted);
  const std::optional<std::string> Digest = Policy.metadata("phase-ordering.vocabulary");
  if (const embeddings::Vocabulary *V = To.vocabulary(); V && Digest && *Digest != V->digest())
    return Status(Code::Mismatch,
                  "phase-ordering.vocabulary: " +
                      (VocabularyFile.empty() ? "the one in this plugin" : VocabularyFile) +
                      " has the digest " + V->digest() + ", the model wants '" + *Digest + "'");
  return Status();
}

const Signature &PhaseOrderingEnvironment::signatureFor(const Model &Policy) {
  Observer Wanted;
  Candidates.clear();
  Metadata = observerFor(Policy, Wanted);
  if (const std::optional<std::string> Json = Policy.metadata("phase-ordering.candidates")) {
    Observes = std::move(Wanted);
    useCandidates(*Json);
    return Sig;
  }
  return use(Policy.metadata("phase-ordering.actions").value_or(ActionList::builtin().str()),
             std::move(Wanted));
}

void PhaseOrderingEnvironment::useCandidates(StringRef Json) {
  llvm::Expected<std::vector<Candidate>> List = parseCandidates(Json);
  if (!List) {
    Metadata = Status(Code::InvalidModel, toString(List.takeError()));
    return;
  }
  Candidates = std::move(*List);
  Sig.inputs = {TensorSpec::of<float>("features", {int64_t(Features::size())})};
  if (Observes.vocabulary())
    Sig.inputs.push_back(
        TensorSpec::of<float>("embedding", {int64_t(Observes.vocabulary()->dimension())}));
  Sig.outputs = {TensorSpec::of<float>("log_ratio", {int64_t(Candidates.size())})};
}

std::vector<Candidate> PhaseOrderingEnvironment::ranked() const {
  std::vector<size_t> Order(Candidates.size());
  std::iota(Order.begin(), Order.end(), 0);
  llvm::stable_sort(Order, [&](size_t A, size_t B) { return Expected[A] < Expected[B]; });
  std::vector<Candidate> Best;
  for (const size_t I : Order)
    if (Candidates[I].IsKnown)
      Best.push_back(Candidates[I]);
  return Best;
}

Candidate PhaseOrderingEnvironment::asCandidate() const {
  Candidate Chosen{"of the model", {}, false, {}};
  for (const Decision &D : Decisions)
    if (D.Action < Actions->size())
      Chosen.Pipelines.push_back((*Actions)[D.Action].Passes);
  return Chosen;
}

const Signature &PhaseOrderingEnvironment::use(StringRef Json, Observer Wanted) {
  Observes = std::move(Wanted);
  llvm::Expected<ActionList> List = ActionList::parse(Json);
  if (!List) {
    Metadata = Status(Code::InvalidModel, toString(List.takeError()));
    return Sig;
  }
  Actions.emplace(std::move(*List));
  MaxSteps = GivenSteps ? GivenSteps : Actions->maxSteps() ? Actions->maxSteps() : DefaultMaxSteps;
  const int64_t Choices = Actions->size() + 1;
  Sig.inputs = {TensorSpec::of<float>("features", {int64_t(Features::size())}),
                TensorSpec::of<float>("action_mask", {Choices}),
                TensorSpec::of<float>("history", {Choices}), TensorSpec::of<int64_t>("step", {1})};
  if (const embeddings::Vocabulary *V = Observes.vocabulary())
    Sig.inputs.push_back(TensorSpec::of<float>("embedding", {int64_t(V->dimension())}));
  Sig.outputs = {TensorSpec::of<int64_t>("action", {1})};
  return Sig;
}

Status PhaseOrderingEnvironment::reset(Observation &First) {
  if (!Metadata)
    return Metadata;
  if (!Candidates.empty()) {
    Now = countIR(M);
    Feature.reset(Now);
    observe(M, First);
    return Status();
  }
  if (!Actions)
    return Status(Code::Internal, "phase-ordering: reset before signatureFor");
  Copy.emplace(M, MAM);
  if (Error E = runMandatoryLowering(Copy->module(), MAM))
    return Status(Code::Internal, "mandatory lowering: " + toString(std::move(E)));
  History.assign(Actions->size() + 1, 0.0f);
  Decisions.clear();
  States.clear();
  observe(First);
  return Status();
}

void PhaseOrderingEnvironment::resume(size_t Steps, Observation &First) {
  Copy.reset();
  States.resize(Steps + 1);
  State From = std::move(States.back());
  States.pop_back();
  Copy.emplace(*From.Copy, MAM);
  Feature = From.Feature;
  History = std::move(From.History);
  Decisions = std::move(From.Decisions);
  End = Outcome::Open;
  observe(First);
}

Status PhaseOrderingEnvironment::step(const Action &Chosen, Observation &Next) {
  if (!Candidates.empty()) {
    const Span<const float> Answer = Chosen.all<float>("log_ratio");
    if (!llvm::all_of(Answer, [](float V) { return std::isfinite(V); }))
      return Status(Code::PolicyFailed, "log_ratio: expected finite numbers");
    Expected.assign(Answer.begin(), Answer.end());
    setDone();
    return Status();
  }
  const mlbridge::Expected<int64_t> Answer = Chosen.get<int64_t>("action");
  if (!Answer)
    return Answer.status();
  const size_t Stop = Actions->size();
  if (*Answer < 0 || uint64_t(*Answer) > Stop)
    return Status(Code::PolicyFailed, "action: expected 0 to " + std::to_string(Stop) + ", got " +
                                          std::to_string(*Answer));
  const size_t Index = size_t(*Answer);
  if (!isAllowed(Index))
    return Status(Code::PolicyFailed, "action: " + std::to_string(Index) + " ('" +
                                          (*Actions)[Index].Name + "') is masked");
  Decisions.push_back(
      {Index, Index == Stop ? "stop" : (*Actions)[Index].Name, Now[unsigned(Count::instructions)]});
  if (Index == Stop) {
    End = Outcome::Stopped;
    setDone();
    return Status();
  }
  if (Error E = Actions->run(Index, Copy->module(), MAM))
    return Status(Code::Internal, toString(std::move(E)));
  History[Index] += 1;
  if (isOver()) {
    End = Outcome::Stopped;
    setDone();
  } else if (Decisions.size() == MaxSteps) {
    End = Outcome::LimitReached;
    setTruncated();
  }
  observe(Next);
  return Status();
}

bool PhaseOrderingEnvironment::isAllowed(size_t Action) const {
  if (Action == Actions->size())
    return Actions->hasStop();
  switch (Actions->repeat()) {
  case Repeat::Never:
    return History[Action] == 0;
  case Repeat::Later: // the group that just ran would change next to nothing
    return Decisions.empty() || Decisions.back().Action != Action;
  case Repeat::Always:
    return true;
  }
  llvm_unreachable("no such rule");
}

/// True if every group has run, and none may run again.
bool PhaseOrderingEnvironment::isOver() const {
  return Actions->repeat() == Repeat::Never && Decisions.size() == Actions->size();
}

/// Writes features of the module as it is now, and its embedding if there is a vocabulary.
void PhaseOrderingEnvironment::observe(const Module &Current, Observation &To) {
  const Span<float> Values = To.input<float>("features");
  Feature.write(Now, {Values.data(), Values.size()});
  if (Observes.vocabulary()) {
    const Span<float> Embedding = To.input<float>("embedding");
    Observes.embed(Current, {Embedding.data(), Embedding.size()});
  }
}

void PhaseOrderingEnvironment::observe(Observation &To) {
  Now = countIR(Copy->module());
  if (Decisions.empty())
    Feature.reset(Now);
  // The episode goes on with a copy of what is kept, as another one will that begins there: a copy
  // has its uses in another order, which passes may depend on.
  if (KeepsStates) {
    States.push_back({Copy->take(), Feature, History, Decisions});
    Copy.emplace(*States.back().Copy, MAM);
  }
  observe(Copy->module(), To);
  const Span<float> Mask = To.input<float>("action_mask");
  for (size_t I = 0; I < Mask.size(); ++I)
    Mask[I] = isAllowed(I) ? 1.0f : 0.0f;
  llvm::copy(History, To.input<float>("history").begin());
  To.input<int64_t>("step")[0] = int64_t(Decisions.size());
}

} // namespace mlbridge::phase_ordering
