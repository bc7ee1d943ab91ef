// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// function:sequence, function:stop, function:fail-at; replay:, which finds the log of the module
// that asks and gives its answers; and candidates:, a list in a fixed order.
#include "environment.h"

#include <mlbridge/function.h>

#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Path.h"

#include <algorithm>
#include <memory>
#include <mutex>
#include <optional>

namespace mlbridge::phase_ordering {

/// The index that means stop: the last one of the mask.
static Status answerStop(FunctionCall &Call) {
  const Span<const float> Mask = Call.in<float>("action_mask");
  const Span<int64_t> Action = Call.out<int64_t>("action");
  if (Mask.empty() || Action.empty())
    return Status(Code::Mismatch, "expected an input action_mask and an output action");
  Action[0] = int64_t(Mask.size()) - 1;
  return Status();
}

static Expected<FunctionModel> sequence(const Uri &From) {
  if (Status S = From.allowOnly({"actions", "list", "deadline", "agent", "episode", "context"}); !S)
    return S;
  const std::string Text = From.option("actions");
  llvm::SmallVector<llvm::StringRef> Parts;
  llvm::StringRef(Text).split(Parts, ',', -1, /*KeepEmpty=*/false);
  std::vector<int64_t> Answers;
  for (llvm::StringRef Part : Parts) {
    int64_t Answer = 0;
    if (!llvm::to_integer(Part, Answer, 10))
      return Status(Code::InvalidArgument,
                    "function:sequence: actions: '" + Part.str() + "' is not a number");
    Answers.push_back(Answer);
  }
  FunctionModel Model;
  if (const std::string List = From.option("list"); !List.empty()) {
    auto Buffer = llvm::MemoryBuffer::getFile(List);
    if (!Buffer)
      return Status(Code::NotFound,
                    "function:sequence: list: " + List + ": " + Buffer.getError().message());
    Model.metadata["phase-ordering.actions"] = (*Buffer)->getBuffer().str();
  }
  Model.newFunction = [Answers]() -> Function {
    return [Answers, Next = size_t(0)](FunctionCall &Call) mutable -> Status {
      if (Next == Answers.size())
        return answerStop(Call);
      const Span<int64_t> Action = Call.out<int64_t>("action");
      if (Action.empty())
        return Status(Code::Mismatch, "expected an output action");
      Action[0] = Answers[Next++];
      return Status();
    };
  };
  return Model;
}

static Expected<FunctionModel> stop(const Uri &From) {
  if (Status S = From.allowOnly({"deadline", "agent", "episode", "context"}); !S)
    return S;
  FunctionModel Model;
  Model.newFunction = []() -> Function { return answerStop; };
  return Model;
}

static Expected<FunctionModel> failAt(const Uri &From) {
  if (Status S = From.allowOnly({"step", "deadline", "agent", "episode", "context"}); !S)
    return S;
  const Expected<uint64_t> Step = From.number("step", 0);
  if (!Step)
    return Step.status();
  FunctionModel Model;
  Model.newFunction = [Last = *Step]() -> Function {
    return [Last, Now = uint64_t(0)](FunctionCall &Call) mutable -> Status {
      if (Now == Last)
        return Status(Code::PolicyFailed, "fails at step " + std::to_string(Now) + ", as asked");
      ++Now;
      const Span<const float> Mask = Call.in<float>("action_mask");
      const Span<const float> Taken = Call.in<float>("history");
      const Span<int64_t> Action = Call.out<int64_t>("action");
      if (Mask.empty() || Taken.size() != Mask.size() || Action.empty())
        return Status(Code::Mismatch, "expected action_mask, history and an output action");
      size_t Best = Mask.size() - 1;
      for (size_t I = Mask.size() - 1; I-- > 0;)
        if (Mask[I] > 0 && (Best == Mask.size() - 1 || Taken[I] <= Taken[Best]))
          Best = I;
      Action[0] = int64_t(Best);
      return Status();
    };
  };
  return Model;
}

namespace {

/// Errors of replay:FILE and replay:FOLDER.
Status failure(Code C, const std::string &Message) { return Status(C, "replay: " + Message); }

/// Complete logs only, in the order of their names.
std::vector<std::string> logsIn(const std::string &Folder) {
  std::vector<std::string> Paths;
  std::error_code EC;
  for (llvm::sys::fs::directory_iterator It(Folder, EC), End; It != End && !EC; It.increment(EC))
    if (llvm::StringRef(It->path()).ends_with(LogExtension))
      Paths.push_back(It->path());
  std::sort(Paths.begin(), Paths.end());
  return Paths;
}

/// What one Runner replays.
class Player {
public:
  Player(std::string Place, std::shared_ptr<const EpisodeLog> File, std::string Digest, bool Embeds)
      : Place(std::move(Place)), File(std::move(File)), ListDigest(std::move(Digest)),
        Embeds(Embeds) {}

  Status operator()(FunctionCall &Call) {
    const Span<int64_t> Action = Call.out<int64_t>("action");
    const Span<const float> Seen = Call.in<float>(Embeds ? "embedding" : "features");
    const std::string Digest = featuresDigest({Seen.data(), Seen.size()});
    if (Action.empty())
      return failure(Code::Mismatch, "expected an output action");
    if (!Log)
      if (Status S = choose(Call.context().context, Digest); !S)
        return S;
    const size_t Size = Log->Decisions.size();
    if (Step == Size && Log->End == Outcome::Failed)
      return failure(Code::PolicyFailed, "the recorded episode failed here: " + Log->Message);
    if (Step == Size) // the recorded compiler had a lower limit on steps
      return answerStop(Call);
    const Decision &Recorded = Log->Decisions[Step];
    if (Recorded.Features != Digest)
      return failure(Code::Mismatch, "step " + std::to_string(Step) + " of the log of '" +
                                         Log->Source + "' was made for features " +
                                         Recorded.Features + ", got " + Digest +
                                         ": another module, compiler or flags");
    Action[0] = int64_t(Recorded.Action);
    ++Step;
    return Status();
  }

private:
  Status choose(const std::string &Source, const std::string &Digest) {
    if (File) {
      Log = File;
      return Status();
    }
    bool Any = false;
    for (const std::string &Path : logsIn(Place)) {
      if (!llvm::sys::path::filename(Path).starts_with(logPrefix(Source)))
        continue;
      llvm::Expected<EpisodeLog> Candidate = EpisodeLog::read(Path);
      if (!Candidate)
        return failure(Code::InvalidModel, llvm::toString(Candidate.takeError()));
      if (Candidate->Source != Source)
        continue;
      Any = true;
      if (Candidate->Decisions.empty() || Candidate->Decisions[0].Features != Digest)
        continue;
      if (Candidate->ActionsDigest != ListDigest)
        return failure(Code::Mismatch,
                       Path + ": its list of actions differs from that of the folder's first log");
      Log = std::make_shared<EpisodeLog>(std::move(*Candidate));
      return Status();
    }
    return failure(Any ? Code::Mismatch : Code::NotFound,
                   Any ? "the logs of '" + Source + "' in " + Place +
                             " were made for other features (another compiler, or other flags)"
                       : "no log of '" + Source + "' in " + Place);
  }

  std::string Place;
  std::shared_ptr<const EpisodeLog> File;
  std::string ListDigest;
  bool Embeds; ///< whether the digests of the log are of embeddings
  std::shared_ptr<const EpisodeLog> Log;
  size_t Step = 0;
};

} // namespace

/// The model of "replay:FILE" or "replay:FOLDER". Errors: NotFound, InvalidModel (damaged log).
/// Evaluating gives Mismatch if what the module looks like is not what the log says.
static mlbridge::Expected<FunctionModel> replay(const Uri &From) {
  if (Status S = From.allowOnly({"deadline", "agent", "episode", "context"}); !S)
    return S;
  llvm::sys::fs::file_status Kind;
  if (std::error_code EC = llvm::sys::fs::status(From.place, Kind))
    return failure(Code::NotFound, From.place + ": " + EC.message());
  const bool IsFolder = llvm::sys::fs::is_directory(Kind);
  std::string First = From.place;
  if (IsFolder) {
    const std::vector<std::string> Paths = logsIn(From.place);
    if (Paths.empty())
      return failure(Code::NotFound, "no log in " + From.place);
    First = Paths.front();
  }
  // The list of actions has to be known before a module asks; a folder's logs share one.
  llvm::Expected<EpisodeLog> Read = EpisodeLog::read(First);
  if (!Read)
    return failure(Code::InvalidModel, llvm::toString(Read.takeError()));
  FunctionModel Model;
  Model.metadata["phase-ordering.actions"] = Read->Actions;
  Model.metadata["phase-ordering.observation"] = Read->Observation;
  const bool Embeds = !Read->Vocabulary.empty();
  if (Embeds)
    Model.metadata["phase-ordering.vocabulary"] = Read->Vocabulary;
  const std::string Digest = Read->ActionsDigest;
  auto File = IsFolder ? nullptr : std::make_shared<const EpisodeLog>(std::move(*Read));
  Model.newFunction = [Place = From.place, File, Digest, Embeds]() -> Function {
    return Player(Place, File, Digest, Embeds);
  };
  return Model;
}

/// The model of "candidates:FILE": it expects most of the first candidate, least of the last.
static mlbridge::Expected<FunctionModel> candidates(const Uri &From) {
  if (Status S = From.allowOnly({"deadline", "agent", "episode", "context"}); !S)
    return S;
  auto Buffer = llvm::MemoryBuffer::getFile(From.place);
  if (!Buffer)
    return Status(Code::NotFound, "candidates: " + From.place + ": " + Buffer.getError().message());
  FunctionModel Model;
  Model.metadata["phase-ordering.candidates"] = (*Buffer)->getBuffer().str();
  Model.newFunction = []() -> Function {
    return [](FunctionCall &Call) -> Status {
      const Span<float> Expected = Call.out<float>("log_ratio");
      for (size_t I = 0; I < Expected.size(); ++I)
        Expected[I] = float(I);
      return Status();
    };
  };
  return Model;
}

void registerModels() {
  static std::once_flag Once;
  std::call_once(Once, [] {
    // Names that are taken belong to whoever took them.
    (void)registerFunction("sequence", sequence);
    (void)registerFunction("stop", stop);
    (void)registerFunction("fail-at", failAt);
    (void)registerScheme("replay", replay);
    (void)registerScheme("candidates", candidates);
  });
}

} // namespace mlbridge::phase_ordering
